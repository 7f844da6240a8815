"""The numbers an operator chooses: schema, units, loading, and the words for what is wrong."""
