"""App servers: everything between a request to forward and its answer as it arrives.

    group → dispatch (eligible, balance) → pool | connector → exchange → incoming

`group` is the room's face: `fetch` gives the answer, or an `UpstreamError` that says whose
fault it was. `outgoing` and `reply` know the octets, `dechunk` the chunks; `wire` moves
them; `upload` sends a body while the answer is awaited; `retry` and `health` decide, `probe`
asks. Nothing here knows of caching, routes or clients.
"""
