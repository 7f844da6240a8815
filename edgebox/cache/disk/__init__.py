"""The disk tier of the cache: one file for each stored response, readable by every worker.

The way of a response in: `writing` takes its octets as they arrive, `filer` gives the file its
name in a `drawer` (a directory that is locked meanwhile), within the room that `space` grants.
The way out: `finder` opens the name, checks what it finds (`reader`, `format`) and asks the
`purgelog` whether it has been purged. `housekeeper`, one niced process, keeps the SQLite
`index`, evicts, carries out purges and checks what lies there; workers drop it `notes`. It may
die, and the index be lost: what is served never depends on either.

`store` is all that as blocking calls, `client` its life within a worker. Only `client` knows
trio. Stores never decide: what may be stored or used is said elsewhere.
"""
