"""What the housekeeper says on its standard output: one JSON object a line.

Nobody waits for it: a report that does not fit into the pipe is dropped.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.json import Decoder, Encoder


class Report(Struct, frozen=True, kw_only=True):
    """How things stand; counts since the housekeeper started. `text`: for the error log."""

    text: str = ""
    keys: int = 0  # in the index
    surveys: int = 0  # rounds through all directories
    surveying: bool = False
    looked: int = 0  # files read because something had changed
    evicted: int = 0  # keys
    purges: int = 0  # that are not carried out yet
    purged: int = 0  # keys that a purge changed
    checked: int = 0  # octets of bodies read
    damaged: int = 0  # files found damaged
    orphans: int = 0  # files that nothing led to
    memory: int = 0  # octets of the process, resident


_encode = Encoder().encode
_decode = Decoder(Report).decode


def write_line(report: Report) -> bytes:
    return _encode(report) + b"\n"


def read_line(line: bytes) -> Report:
    """msgspec.MsgspecError if the line is no report."""
    return _decode(line)
