"""Where callers come in: gRPC over mutual TLS, what may be asked of the door itself, how replies leave."""
