"""Sealed payloads: opened for whoever holds the tenant's key, and destroyed with it."""
