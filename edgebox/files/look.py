"""One look at a path: opened, read if it is small, and described from that one descriptor.

May run in a thread: it touches nothing but the file. What came of earlier looks, and
whether the directories are watched, is not its business.
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from edgebox.files import seal
from edgebox.files.entry import Docroot, FileEntry, Found, Identity, Missing, OpenFile
from edgebox.files.opener import Opened, open_file
from edgebox.files.residency import read_blocking, resident_read
from edgebox.files.statcache import TICK, unsettled_for
from edgebox.http.dates import format_date

_PIECE = 256 * 1024


class Sight(NamedTuple):
    """What a look saw.

    `unsettled_for`: seconds for which the identity could still hide a change; 0.0 if
    it cannot. `steady`: the file stood still while it was read.
    """

    found: Found
    unsettled_for: float = 0.0
    steady: bool = True


def take_look(docroot: Docroot, path: bytes, object_size: int, *, nowait: bool) -> Sight | None:
    """See what is at `path`; files up to `object_size` octets come with their content.

    None, with `nowait` only: the disk would have to be waited for. A file that is being
    written is read once more, then taken as it was. Raises no OSError.
    """
    sight = _look_once(docroot, path, object_size, nowait)
    if sight is not None and not sight.steady:
        sight = _look_once(docroot, path, object_size, nowait)
    return sight


def _look_once(docroot: Docroot, path: bytes, object_size: int, nowait: bool) -> Sight | None:
    wall_ns = time.time_ns()
    opened = open_file(docroot, path, nowait=nowait)
    if not isinstance(opened, Opened):
        return None if opened is None else Sight(opened)
    identity = Identity.of(opened.status)
    unsettled = unsettled_for(identity, wall_ns)
    # An empty one is a mark, and bears no seal.
    tail = seal.SIZE if docroot.sealed and identity.size else 0
    if identity.size > object_size:
        file = OpenFile(opened.fd)
        if tail and nowait:
            return None
        if tail and not _is_right(file.fileno(), path, identity.size):
            return Sight(Missing.NOT_FOUND, unsettled)
        return Sight(_describe(path, identity, wall_ns, unsettled, file, tail), unsettled)
    try:
        content = (resident_read if nowait else read_blocking)(opened.fd, 0, identity.size)
        if content is None:
            return None
        steady = Identity.of(os.fstat(opened.fd)) == identity
    except OSError:
        return Sight(Missing.IO_ERROR)
    finally:
        os.close(opened.fd)
    if len(content) < identity.size:
        return Sight(Missing.IO_ERROR, steady=False)
    if not steady:
        unsettled = max(unsettled, TICK)
    if tail and (content := seal.maybe_open(path, content)) is None:
        return Sight(Missing.NOT_FOUND, unsettled, steady)
    return Sight(_describe(path, identity, wall_ns, unsettled, content, tail), unsettled, steady)


def _is_right(fd: int, name: bytes, size: int) -> bool:
    """Whether all of a sealed file is as it was written. To be run in a thread."""
    checksum, position, end = seal.begin(name), 0, size - seal.SIZE
    try:
        while position < end:
            piece = os.pread(fd, min(_PIECE, end - position), position)
            if not piece:
                return False
            checksum = crc32(piece, checksum)
            position += len(piece)
        return seal.is_right(checksum, os.pread(fd, seal.SIZE, max(end, 0)))
    except OSError:
        return False


def _describe(
    path: bytes,
    identity: Identity,
    wall_ns: int,
    unsettled: float,
    body: bytes | OpenFile,
    tail: int,
) -> FileEntry:
    # RFC 9110 §8.8.2.1: a time of change in the future is told as the present.
    modified = min(identity.mtime_ns, wall_ns) // 1_000_000_000
    return FileEntry(
        path,
        identity,
        entity_tag(identity, wall_ns if unsettled else 0),
        format_date(modified),
        content=body if isinstance(body, bytes) else None,
        file=body if isinstance(body, OpenFile) else None,
        tail=tail,
    )


def entity_tag(identity: Identity, provisional: int = 0) -> bytes:
    """A strong ETag, 18 octets with its quotes (RFC 9110 §8.8.3).

    The change time is in it: packages, images and `cp -p` give different contents the
    same size and mtime. So it is this machine's tag, and differs on another with the
    same files. A hash, since an inode number is nobody's business. While the identity could
    hide a change (see `unsettled_for`) a number that is new with each look sets it apart.
    """
    seed = b"%d %d %d %d %d" % (*identity[1:], provisional)
    return b'"%s"' % blake2b(seed, digest_size=8).hexdigest().encode()
