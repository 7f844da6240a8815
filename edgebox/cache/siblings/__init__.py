"""One fetch for all workers: who is not the first to ask for a key gets it from who is.

Workers share no memory for answers, and each has flights of its own. So before a worker asks an
upstream it claims the key (`claims`); where another has it, the answer's head and octets come
from there as they arrive (`asking`, `telling`), and the flight goes on as any other. Whatever is
out of the ordinary ends in the worker asking the upstream itself, as if it were alone.
"""
