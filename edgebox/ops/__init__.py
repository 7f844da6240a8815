"""What runs, and how it is told: processes, control, sizing, and the worker put together."""
