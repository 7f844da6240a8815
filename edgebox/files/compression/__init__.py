"""Variants of files under a content coding, made ahead of time by a niced process.

The way of a variant: a handler finds that it would like one and `client` queues the job;
`process` starts the `helper`, a process of its own, whose `builder` reads the source and
writes what a `coder` makes of it into a `newfile`; `sweep` makes room, and the file gets
the name that `variants` gives it. From then on the file store finds it like any other file.
`survey` and `walk` list what there is to do for whoever wants it all done now. Nothing
here knows HTTP beyond the names of the codings; only `client` and `process` know trio.
"""
