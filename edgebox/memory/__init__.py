"""What edgebox holds in RAM on purpose: the ledger and the working set."""
