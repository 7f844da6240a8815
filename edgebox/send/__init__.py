"""From a response to octets on the wire."""
