"""From JetStream into the store, each message once."""
