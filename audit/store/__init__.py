"""The store: one path to ClickHouse, embedded or not, its schema, and what a row is."""
