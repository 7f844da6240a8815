"""What edgebox costs, beside its peers, on the machine at hand: `python -m perf.bench`.

The figure is CPU time of the server per request, in one run with nginx, lighttpd, h2o and a
bare C loop, and as a cache with nginx, HAProxy and Varnish; a rate in requests a second is
noted and never judged, because wall-clock rates jump by half on a shared machine. What is
compared is the ratio of two servers of one run.

    bench → rows × peers → server → load → processes → results → report, chart

`rows` says what is measured and `targets` what must be reached. `peers` knows how each
server is set up, `server` starts and ends one, `loads` speaks to wrk and ab, `processes`
reads /proc, `measure` does one row, its peers in turn, `connections` and `stall` are the rows
that no load tool can do. `results` judges, `report` and `chart` tell. `caches` sets up the
servers of the proxied rows, and `origin` is what they stand before. `python -m perf.herd` is
a measurement of its own: a `crowd` that asks at once for what is not in the cache yet.

The bench stands apart: it starts edgebox like any other server and imports nothing of it.
No figure here is ever a test's assertion.
"""
