"""Cold reads beside a hot load: a few clients fetch large files that keep leaving the page cache.

The same clients at the same pace fetch the same files in both halves of the row; only in one
are the files dropped from the page cache before each fetch (posix_fadvise, DONTNEED). So
what differs is the disk alone. On tmpfs nothing can be dropped, and the row says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import itertools
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FILES = 32
SIZE = 4 << 20  # octets: beyond what any of the servers keeps in its own memory
CLIENTS = 8
PAUSE = 0.05  # seconds between two fetches of a client: at most 640 MB/s, usually the disk's rate


@dataclass
class Fetches:
    """What the clients did meanwhile: whole files fetched, and what went wrong."""

    done: int = 0
    faults: list[str] = field(default_factory=list)


def make_files(root: Path) -> list[Path]:
    """Files of random octets below `root`, on the disk before this returns."""
    directory = root / "cold"
    directory.mkdir()
    paths = [directory / f"{number}.bin" for number in range(FILES)]
    for path in paths:
        with path.open("wb") as file:
            file.write(os.urandom(SIZE))
            file.flush()
            os.fsync(file.fileno())
    return paths


def drop(path: Path) -> None:
    """Asks the kernel to forget the file's pages."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path: Path) -> float:
    """The share of the file's pages in the page cache: mincore(2)."""
    size = path.stat().st_size
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    vector = (ctypes.c_ubyte * pages)()
    # A private writable mapping, because ctypes takes addresses of writable buffers only.
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as view:
        address = ctypes.c_char.from_buffer(view)
        failed = libc.mincore(ctypes.byref(address), ctypes.c_size_t(size), vector)
        del address
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in vector) / pages


@contextlib.contextmanager
def fetching(port: int, paths: Sequence[Path], cold: bool) -> Iterator[Fetches]:
    """Clients fetch `paths` in turn until the block ends, dropping each first if `cold`."""
    fetches = Fetches()
    over = threading.Event()
    turn = itertools.cycle(paths)
    threads = [
        threading.Thread(target=_client, args=(port, turn, cold, over, fetches))
        for _ in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield fetches
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _client(
    port: int, turn: Iterator[Path], cold: bool, over: threading.Event, fetches: Fetches
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    buffer = bytearray(1 << 18)
    try:
        while not over.wait(PAUSE):
            path = next(turn)
            if cold:
                drop(path)
            connection.request("GET", f"/cold/{path.name}")
            response = connection.getresponse()
            length = 0
            while count := response.readinto(buffer):
                length += count
            if response.status != 200 or length != SIZE:
                raise http.client.HTTPException(f"status {response.status}, {length} octets")
            fetches.done += 1
    except (OSError, http.client.HTTPException) as error:
        fetches.faults.append(f"a cold fetch: {type(error).__name__}: {error}")
    finally:
        connection.close()
