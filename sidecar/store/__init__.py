"""What JetStream keeps: what is spent, outcomes on their way, the ledger of the tool as it says itself."""
