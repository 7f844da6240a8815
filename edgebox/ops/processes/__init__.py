"""The processes: a supervisor, its generations of workers, and what starts and ends them."""
