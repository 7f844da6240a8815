"""App servers: pools, exchanges, balance, health."""
