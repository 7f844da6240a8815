"""Files on disk: looked up, watched, kept hot, compressed."""
