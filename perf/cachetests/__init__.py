"""The public suite for HTTP caches, http-cache-tests, run against edgebox.

The suite brings an origin server and a client. `suite` fetches it and runs both with an edgebox
between them; `table` sets the results beside those that the suite publishes of others. Its
code stays where it is: only counts and names of tests come back.
"""
