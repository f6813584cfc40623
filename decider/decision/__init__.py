"""One decision, from envelope and facts through checks and rules to a signed verdict and its record."""
