"""The operator's hand: one file a verb."""
