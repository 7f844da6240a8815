"""Which files of the configured sites get which variants: the worklist of `precompress`.

Judges as the server does when it is asked for a file: type, size, sidecars, dotfiles and
symlinks. Reads directories, and nothing that is in a file; starts no process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from edgebox.config.schema import Compression, Config
from edgebox.files.compression.jobs import Job
from edgebox.files.compression.variants import SIDECAR_SUFFIXES, Worth, worth_compressing
from edgebox.files.compression.walk import Skip, walk
from edgebox.files.entry import Docroot, Identity
from edgebox.files.opener import Opened, open_file
from edgebox.http.mime import content_type


class Eligible(NamedTuple):
    """A file and a job for each coding that it lacks a sidecar for."""

    path: bytes  # absolute
    jobs: tuple[Job, ...]  # at least one

    @property
    def size(self) -> int:
        return self.jobs[0].identity.size


class Passed(NamedTuple):
    """A name that gets no variant. `error`: an operator should hear of it by name."""

    path: bytes  # absolute
    reason: str
    error: bool = False


def find_files(config: Config) -> Iterator[Eligible | Passed]:
    """Every name in every site, in order. `config` must be settled."""
    for site in config.site:
        if not site.root:  # an app server answers for all of it
            continue
        docroot = Docroot(os.fsencode(site.root), site.symlinks)
        for path, what in walk(docroot, site.dotfiles):
            absolute = os.path.join(docroot.root, path)
            if isinstance(what, Skip):
                yield Passed(absolute, what.value)
            elif isinstance(what, OSError):
                yield Passed(absolute, what.strerror or str(what), error=True)
            else:
                kind = content_type(path, site.types)
                worth = worth_compressing(what.size, kind, config.compression)
                if worth is not Worth.OK:
                    yield Passed(absolute, worth.value)
                elif jobs := tuple(_jobs(docroot, path, what, config.compression)):
                    yield Eligible(absolute, jobs)
                else:
                    yield Passed(absolute, "has sidecars")


def _jobs(docroot: Docroot, path: bytes, identity: Identity, config: Compression) -> Iterator[Job]:
    for coding in map(str.encode, config.codings):
        if not (config.sidecars and _has_sidecar(docroot, path, coding, identity)):
            yield Job(
                root=docroot.root,
                path=b"/" + path,
                symlinks=docroot.symlinks,
                identity=identity,
                coding=coding,
            )


def _has_sidecar(docroot: Docroot, path: bytes, coding: bytes, identity: Identity) -> bool:
    """Whether the server would send the sidecar: a file that it may read, under its policy for
    symlinks, not empty and, to the second, not older than its source."""
    opened = open_file(docroot, b"/" + path + SIDECAR_SUFFIXES[coding], nowait=False)
    if not isinstance(opened, Opened):
        return False
    os.close(opened.fd)
    facts = opened.status
    second = 1_000_000_000
    return facts.st_size > 0 and facts.st_mtime_ns // second >= identity.mtime_ns // second
