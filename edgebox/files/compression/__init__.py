"""Variants of files under a content coding, made ahead of time by a niced process.

The way of a variant: a handler finds that it would like one and `client` queues the job;
`helper`, a process of its own, takes it, `builder` reads the source and writes the coded
body with a `coder` into a `newfile`, `sweep` makes room, and the file gets the name that
`variants` gives it. From then on the file store finds it as it finds any other file.
Nothing here knows HTTP beyond the names of the codings; only `client` knows trio.
"""
