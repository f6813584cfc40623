"""The decider: makes decisions, from envelope and facts through checks and rules to a signed permit."""
