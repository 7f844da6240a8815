"""Has a file system written out, by a child process that is nobody's concern.

syncfs(2) takes as long as the disk does for all that waits to be written, and cannot be
interrupted. So neither the housekeeper waits for it, nor who wants the housekeeper to end.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable


def sync_file_system(path: bytes) -> None:
    """Write out the file system that a directory is on. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs")
    finally:
        os.close(fd)


class Syncing:
    """Begun as it is made. For a process without threads."""

    def __init__(self, path: bytes, sync: Callable[[bytes], None] = sync_file_system) -> None:
        self._child = os.fork()
        if self._child == 0:
            try:
                os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # locks and pipes are not ours to hold
                sync(path)
                os._exit(0)
            finally:
                os._exit(1)

    def poll(self) -> bool | None:
        """Whether it went well; None: it is not over. Not to be asked again after an answer."""
        child, status = os.waitpid(self._child, os.WNOHANG)
        return None if child == 0 else status == 0
