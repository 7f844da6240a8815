"""The express lane: answers of a moment ago, repeated without being parsed."""
