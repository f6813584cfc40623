"""Rules of a bundle: read, checked, built, tested, tried on calls that were, and asked by Cedar."""
