"""Tasks: registered work, what its contract lets it bring about, and what its agent is shown."""
