"""One client connection: h11, deadlines, one request after the other."""
