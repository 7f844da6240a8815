"""HTTP semantics as pure functions: no socket, no loop, no clock; time comes in as `now`."""
