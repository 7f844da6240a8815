"""Counts and tells; a sink that imports no request code."""
