"""A shared cache by RFC 9111: pure policy, and the stores."""
