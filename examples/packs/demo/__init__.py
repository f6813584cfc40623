"""The story of a pack, played on the embedded stack."""
