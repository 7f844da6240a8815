"""A warm start: which files were hot is handed from worker to worker, never what is in them.

The list lies in a file without a name that outlives the worker (memfd_create(2)). Whoever
comes next opens and looks at each file as for a request, so nothing of it is believed but that
it may be wanted soon; and serves after WARM_UP seconds at the latest, warm or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import trio

from edgebox.config.schema import Config
from edgebox.files.entry import Docroot, Symlinks
from edgebox.files.statcache import Key
from edgebox.files.store import FileStore

COUNT = 2000  # files; what is less hot than these may as well be read when it is asked for
WARM_UP = 2.0  # seconds
LONGEST = 16 * 1024 * 1024

_Listed = tuple[bytes, Symlinks, bytes]
_decoder = msgspec.json.Decoder(list[_Listed])


def leave(fd: int, keys: Sequence[Key]) -> None:
    """Leave the list for whoever comes next."""
    octets = msgspec.json.encode([(*docroot[:2], path) for docroot, path in keys])
    with suppress(OSError):  # no memory for it: then the next one starts cold
        os.ftruncate(fd, 0)
        os.pwrite(fd, octets, 0)


def find(fd: int, config: Config) -> list[Key]:
    """What was left, as far as this configuration serves it; a list half written is none."""
    try:
        listed = _decoder.decode(os.pread(fd, LONGEST, 0))
    except (OSError, msgspec.DecodeError):
        return []
    roots = {(os.fsencode(site.root), site.symlinks) for site in config.site}
    variants = os.fsencode(config.compression.dir or "")
    return [
        (Docroot(root, symlinks, sealed=root == variants), path)
        for root, symlinks, path in listed
        if (root, symlinks) in roots or root == variants
    ]


async def warm_up(store: FileStore, keys: Sequence[Key]) -> int:
    """Look at these files, the hottest first; how many it was until the time was over."""
    done = 0
    with trio.move_on_after(WARM_UP):
        for docroot, path in keys:
            now = time.monotonic()
            if store.find_nowait(docroot, path, now) is None:
                await store.find(docroot, path, now)
            done += 1
            if done % 16 == 0:
                await trio.lowlevel.checkpoint()
    return done
