"""The audit store: keeps decisions, joins them to spends and ledger changes, and answers questions on them."""
