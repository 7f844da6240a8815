"""Sockets: bind them, accept from them."""
