"""Catalogs: what the owner of a tool writes, checked against descriptors, made into signable bytes."""
