"""What goes over the pipes between a server process and its compression helper.

One JSON object a line each way: jobs to the helper, one report for each back, and one
report before the first job that says whether the directory can be used. Octet strings
travel as base64 (msgspec's way), so names need no other escaping. Knows no processes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct
from msgspec.json import Decoder, Encoder

from edgebox.config.schema import Compression
from edgebox.files.entry import Docroot, Identity, Symlinks


@dataclass(frozen=True, slots=True)
class Settings:
    """What a helper is started with."""

    directory: bytes  # the cache directory, which need not exist
    limit: int  # dir_size
    levels: Mapping[bytes, int]  # by coding

    def arguments(self) -> list[bytes]:
        """As on a command line: b"/var/cache/edgebox", b"1073741824", b"br=9"…"""
        levels = (b"%s=%d" % level for level in self.levels.items())
        return [self.directory, b"%d" % self.limit, *levels]


def settings_for(config: Compression, directory: str | os.PathLike[str]) -> Settings:
    """The settings that follow from the configuration."""
    levels = {b"br": config.br_level, b"zstd": config.zstd_level, b"gzip": config.gzip_level}
    return Settings(os.fsencode(directory), config.dir_size, levels)


def read_settings(arguments: Sequence[bytes]) -> Settings:
    """The inverse of `Settings.arguments()`; ValueError if it cannot be that."""
    directory, limit, *rest = arguments
    levels = (level.partition(b"=") for level in rest)
    return Settings(directory, int(limit), {coding: int(level) for coding, _, level in levels})


class Job(Struct, frozen=True, kw_only=True):
    """One variant to make of one file."""

    root: bytes  # the docroot, absolute
    path: bytes  # below it, starting with b"/"
    symlinks: Symlinks
    identity: Identity  # what the source must still be when it is read
    coding: bytes  # b"br", b"zstd" or b"gzip"

    @property
    def docroot(self) -> Docroot:
        return Docroot(self.root, self.symlinks)

    @property
    def key(self) -> tuple[Identity, bytes]:
        """Jobs with equal keys make the same variant."""
        return self.identity, self.coding


class Outcome(Enum):
    """How a job ended, or (READY, and from DISK_FULL on) how a helper found the directory."""

    READY = "ready"
    KEPT = "kept"
    NOT_SMALLER = "does not get smaller"
    THERE = "already there"
    CHANGED = "changed meanwhile"
    SOURCE = "source cannot be read"
    NO_ROOM = "larger than dir_size"
    DISK_FULL = "disk full"
    READ_ONLY = "file system is read-only"
    DENIED = "permission denied"
    FAILED = "failed"

    @property
    def is_error(self) -> bool:
        """True if an operator should hear of the file; a file in flux is none."""
        return self not in {
            Outcome.READY,
            Outcome.KEPT,
            Outcome.NOT_SMALLER,
            Outcome.THERE,
            Outcome.CHANGED,
        }

    @property
    def stops_writing(self) -> bool:
        """True if the next job would meet the same."""
        return self in {Outcome.DISK_FULL, Outcome.READ_ONLY, Outcome.DENIED}


class Report(Struct, frozen=True, kw_only=True):
    """The answer to one job."""

    outcome: Outcome
    before: int = 0  # octets of the source
    after: int = 0  # octets of the variant; 0 for a marker
    swept: int = 0  # variants removed to make room for this one
    text: str = ""  # for an operator, when something failed


def outcome_of(error: OSError) -> Outcome:
    """What an error met while writing into the cache directory means for the next job."""
    return {
        errno.ENOSPC: Outcome.DISK_FULL,
        errno.EDQUOT: Outcome.DISK_FULL,
        errno.EROFS: Outcome.READ_ONLY,
        errno.EACCES: Outcome.DENIED,
        errno.EPERM: Outcome.DENIED,
    }.get(error.errno or 0, Outcome.FAILED)


_encode = Encoder().encode
_decode_job = Decoder(Job).decode
_decode_report = Decoder(Report).decode


def write_line(message: Job | Report) -> bytes:
    return _encode(message) + b"\n"


def read_job(line: bytes) -> Job:
    """msgspec.MsgspecError if the line is not a job."""
    return _decode_job(line)


def read_report(line: bytes) -> Report:
    """msgspec.MsgspecError if the line is not a report."""
    return _decode_report(line)
