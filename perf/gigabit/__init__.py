"""A full gigabit, proven on one machine: `python -m perf.gigabit`, or `make gigabit`.

A French test of static gigabit serving, done again: a sparse file of 10 GB, fetched by 10,
100, 1000 clients at once, then by the 10,000 that its author wanted to see, with a rest in
between. Server and clients sit in two network namespaces with a shaped wire between them;
edgebox, nginx and lighttpd take their turns in one run.

    __main__ → network → servers → phases (client, sample) → results → report, plot
                                 → objects, mixed

`network` makes the wire and takes it away, `client` is the crowd, `sample` reads the
machine once a second, `phases` is the course of it, `objects` asks how small an object
may be, `mixed` how long one takes beside downloads. `results`, `report` and `plot` are pure.

Like the rest of `perf` it starts edgebox as it would any server, and imports nothing of it.
"""
