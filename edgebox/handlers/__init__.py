"""From a request to a response. No handler writes to a socket."""
