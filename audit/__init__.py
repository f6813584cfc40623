"""The audit store: keeps decisions, joins them to spends and ledger changes, answers questions on them."""
