"""Host and path to the rule that answers. Pure."""
