"""The tool's side."""
