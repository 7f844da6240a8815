"""edgebox: an edge node in front of app servers on one Linux box.

The life of a request, room by room:

    listen → express → session → route → handlers → files | cache ⇄ upstream → send

`listen` binds and accepts. `express` repeats answers it gave a moment ago without
parsing. `session` speaks HTTP/1 with h11 to everyone else. `route` picks the site,
`handlers` make a response from `files` (or, later, the `cache`), `send` puts it on
the wire, and the connection goes back to being idle. `config` and `plan` decide the
numbers before the first request; `ops` runs the processes; `observe` counts and
tells; `cli` is the operator's hand.

Words used throughout:

epoch        one second of wall clock; what the express lane remembers ends with it
head         request line and header fields, up to and with the empty line
working set  the octets of hot objects kept in RAM, bounded and counted in the ledger
stat cache   what is known of paths, so that a hot file costs no system call
variant      a file under a content coding: gzip, br or zstd
fault        a refusal with a status, a culprit and an RFC section
"""

__version__ = "0.1.0"
