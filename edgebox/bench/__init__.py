"""A load tool: many connections in one epoll loop, reported as ApacheBench reports.

`load` is what is asked, `runner` asks it, `samples` holds what was measured, `figures` makes
numbers of that and `report` writes them. It knows nothing of the server: only HTTP answers,
read by the same code that reads those of upstreams.
"""
