"""Is it in the page cache? Reading without waiting for the disk, and with.

preadv2(2) with RWF_NOWAIT hands over what is in RAM and refuses to wait for the rest.
So the loop reads what is resident itself, and a thread is troubled only for what is
not: see TARGETS on what moving every read to threads once cost another server.

File systems that do not know the flag count as never resident (overlayfs, NFS, FUSE),
except those that live in RAM, which never wait.
"""

from __future__ import annotations

import ctypes
import errno
import os

# The kernel's default read_ahead_kb is 128: what one reader left behind, and what is
# evicted, comes in runs of about that size. Twice that makes the probe of a 1 MiB window
# cost 7 µs where sending it costs 50 and more (2026-11-30).
_STRIDE = 256 * 1024
_SCRATCH = 128 * 1024  # stays in the processor's cache

_TMPFS, _RAMFS = 0x01021994, 0x858458F6  # linux/magic.h

_fstatfs = ctypes.CDLL(None, use_errno=True).fstatfs


def resident_read(fd: int, offset: int, length: int) -> bytes | None:
    """`length` octets at `offset` if all are in RAM; None if any would have to be waited for.

    Also None where the file ends before. OSError as of preadv2(2).
    """
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        if not lives_in_memory(fd):
            return None
        count = os.preadv(fd, [buffer], offset)
    return bytes(buffer) if count == length else None


def read_blocking(fd: int, offset: int, length: int) -> bytes:
    """`length` octets at `offset`, fewer only where the file ends before; waits for the disk."""
    content = os.pread(fd, length, offset)
    while 0 < len(content) < length:  # a signal, or a file system that reads piecemeal
        more = os.pread(fd, length - len(content), offset + len(content))
        if not more:
            break
        content += more
    return content


def is_resident(fd: int, offset: int, length: int) -> bool:
    """Whether sendfile of this window would hardly have to wait.

    Touches one octet every 256 KiB and the last one, so it can be wrong about a hole
    between them: a hint, not a promise. Past the end of the file nothing is waited for.
    """
    if length <= 0:
        return True
    octet = bytearray(1)
    last = offset + length - 1
    for position in (*range(offset, last, _STRIDE), last):
        try:
            os.preadv(fd, [octet], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return lives_in_memory(fd)
    return True


def load_window(fd: int, offset: int, length: int) -> None:
    """Bring the window into the page cache; to be run in a thread. Ends early at end of file.

    All of it is asked for at once, then read through a small buffer: readahead(2) and
    POSIX_FADV_WILLNEED by themselves return before the pages have arrived.
    """
    os.posix_fadvise(fd, offset, length, os.POSIX_FADV_WILLNEED)
    scratch = memoryview(bytearray(min(length, _SCRATCH)))
    end = offset + length
    while offset < end:
        count = os.preadv(fd, [scratch[: end - offset]], offset)
        if count == 0:
            return
        offset += count


def lives_in_memory(fd: int) -> bool:
    """Whether `fd` is on tmpfs or ramfs (fstatfs(2)): nothing there has to be waited for.

    tmpfs has no RWF_NOWAIT up to Linux 6.18 at least. Its pages may be in swap; a box
    that swaps its site out has other worries.
    """
    buffer = (ctypes.c_long * 32)()  # struct statfs is 120 octets; the first word is its type
    return _fstatfs(fd, ctypes.byref(buffer)) == 0 and buffer[0] in (_TMPFS, _RAMFS)
