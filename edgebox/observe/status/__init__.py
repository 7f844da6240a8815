"""The status page: what all workers published, put together for one look."""
