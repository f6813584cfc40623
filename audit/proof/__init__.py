"""Is the audit what its sources wrote? Over the store, or over an exported file."""
