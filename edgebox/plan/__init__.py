"""Sizes the server from the machine: facts in, plan out."""
