"""How operators' tools, the supervisor and its workers speak with each other."""
