"""Questions to the store, and how their answers look."""
