"""A worker put together: the only place that knows every room."""
