-- Which key an event of kind key.added or key.revoked is about: the verifier asks what was signed after its revocation.
ALTER TABLE events ${on_cluster} ADD COLUMN IF NOT EXISTS key_id LowCardinality(String) AFTER issuer;
