"""The sidecar: enforces decisions, by one ordered list of checks, a spend, the call and its outcome."""
