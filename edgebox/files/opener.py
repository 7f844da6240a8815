"""Open a path below a document root, safely, and without waiting where that is possible.

The kernel does the walking: openat2(2) keeps every step below the root, symlinks
included, and with RESOLVE_CACHED it answers EAGAIN instead of reading a directory from
disk. A path is opened with O_PATH first, which has no side effect on a FIFO, a tape or a
socket; only a regular file is then opened for reading, through /proc/self/fd, so both
descriptors are one inode and nothing can be swapped in between.

Five system calls look at a path, eight open it. What is known of a path from before,
and whether it may still be believed, is not asked here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from functools import cache
from typing import NamedTuple

from edgebox.files.entry import Directory, Docroot, Identity, Missing
from edgebox.files.residency import lives_in_memory


class Opened(NamedTuple):
    """A regular file open for reading; who gets it closes `fd`."""

    fd: int
    status: os.stat_result


# None: it would have to wait for the disk.
Opening = Opened | Directory | Missing | None

_OPENAT2 = 437  # the same on x86_64 and aarch64: newer calls share one table
_AT_FDCWD = -100

# linux/openat2.h
_NO_XDEV = 0x01
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
_CACHED = 0x20  # since Linux 5.12

_RESOLVE: dict[str, int] = {
    "within-root": _BENEATH | _NO_MAGICLINKS,
    "follow": _NO_MAGICLINKS,
    "never": _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS,
}
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY
# With RESOLVE_BENEATH the kernel gives up on ".." while directories are being moved.
_ATTEMPTS = 8

_MISSING = {
    errno.ENOENT: Missing.NOT_FOUND,
    errno.ENOTDIR: Missing.NOT_FOUND,
    errno.ENAMETOOLONG: Missing.NOT_FOUND,
    errno.ELOOP: Missing.NOT_FOUND,
    errno.EINVAL: Missing.NOT_FOUND,  # a name that this file system cannot hold
    errno.EILSEQ: Missing.NOT_FOUND,
    errno.EXDEV: Missing.OUTSIDE,
    errno.EACCES: Missing.FORBIDDEN,
    errno.EPERM: Missing.FORBIDDEN,
    errno.EMFILE: Missing.NO_DESCRIPTORS,
    errno.ENFILE: Missing.NO_DESCRIPTORS,
    errno.ENOMEM: Missing.NO_DESCRIPTORS,
}

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def check_kernel() -> None:
    """Raise RuntimeError, telling why, where files cannot be opened in this way.

    To be called once at start: a kernel before 5.12, a seccomp filter that refuses
    openat2, or no /proc.
    """
    try:
        fd = _openat2(_AT_FDCWD, b"/", os.O_PATH, _NO_MAGICLINKS | _CACHED)
    except OSError as error:
        raise RuntimeError(
            "edgebox needs openat2(2) with RESOLVE_CACHED, Linux 5.12 or later,"
            f" and no filter that refuses it: {error}"
        ) from error
    try:
        os.stat(b"/proc/self/fd/%d" % fd)
    except OSError as error:
        raise RuntimeError(f"edgebox needs /proc: {error}") from error
    finally:
        os.close(fd)


def open_file(docroot: Docroot, path: bytes, *, nowait: bool) -> Opening:
    """Open the regular file at `path` (decoded, normalised, starts with "/") for reading.

    With `nowait` the answer is None where the disk, or another process' lease on the
    file, would have to be waited for: to be asked again in a thread, without it.
    """
    located = _locate(docroot, path, nowait)
    if not isinstance(located, Opened):
        return located
    try:
        # O_NONBLOCK: a lease that must be broken first gives EAGAIN (fcntl(2), F_SETLEASE).
        flags = _READ | os.O_NONBLOCK if nowait else _READ
        return Opened(os.open(b"/proc/self/fd/%d" % located.fd, flags), located.status)
    except BlockingIOError:
        return None
    except OSError as error:
        return _missing(error)
    finally:
        os.close(located.fd)


def identify(
    docroot: Docroot, path: bytes, *, nowait: bool
) -> Identity | Directory | Missing | None:
    """What is at `path` now, without opening it for reading; None as in `open_file`."""
    located = _locate(docroot, path, nowait)
    if not isinstance(located, Opened):
        return located
    os.close(located.fd)
    return Identity.of(located.status)


def _locate(docroot: Docroot, path: bytes, nowait: bool) -> Opening:
    """A regular file at `path`, as an O_PATH descriptor."""
    if b"\0" in path or (b".." in path and b".." in path.split(b"/")):
        return Missing.NOT_FOUND  # the target's parser refuses these; never rely on it
    try:
        fd = _resolve(docroot, path.lstrip(b"/") or b".", nowait)
    except BlockingIOError:
        return None if nowait else Missing.IO_ERROR
    except OSError as error:
        if nowait and error.errno == errno.EXDEV and docroot.symlinks == "within-root":
            return None  # an absolute symlink, perhaps to within: realpath must read the disk
        if error.errno == errno.ELOOP and docroot.symlinks == "never":
            return Missing.OUTSIDE
        return _missing(error)
    try:
        status = os.fstat(fd)
    except OSError as error:
        os.close(fd)
        return _missing(error)
    if stat.S_ISREG(status.st_mode):
        return Opened(fd, status)
    os.close(fd)
    return Directory(path) if stat.S_ISDIR(status.st_mode) else Missing.NOT_FOUND


def _resolve(docroot: Docroot, relative: bytes, nowait: bool) -> int:
    """An O_PATH descriptor of `relative` under the docroot's symlink policy."""
    cached = _CACHED if nowait else 0
    resolve = _RESOLVE[docroot.symlinks] | cached
    if docroot.symlinks == "follow":
        return _openat2(_AT_FDCWD, docroot.root + b"/" + relative, os.O_PATH, resolve)
    root = _openat2(_AT_FDCWD, docroot.root, os.O_PATH | os.O_DIRECTORY, cached)
    try:
        return _openat2(root, relative, os.O_PATH, resolve)
    except BlockingIOError:
        if not nowait or not lives_in_memory(root):
            raise
        return _resolve_in_memory(root, relative, resolve)
    except OSError as error:
        if error.errno != errno.EXDEV or nowait or docroot.symlinks == "never":
            raise
        return _resolve_absolute_links(root, relative, resolve)
    finally:
        os.close(root)


def _resolve_in_memory(root: int, relative: bytes, resolve: int) -> int:
    """`relative` below a `root` on tmpfs, which keeps no memory of names that are not there.

    So RESOLVE_CACHED always refuses those, though to look would be no wait at all.
    """
    try:
        return _openat2(root, relative, os.O_PATH, (resolve & ~_CACHED) | _NO_XDEV)
    except OSError as error:
        if error.errno == errno.EXDEV:  # to another file system, perhaps on a disk
            raise BlockingIOError(errno.EAGAIN, "leaves the file system") from error
        raise


def _resolve_absolute_links(root: int, relative: bytes, resolve: int) -> int:
    """`relative` once more, allowing absolute symlinks as long as the end lies below `root`.

    RESOLVE_BENEATH refuses every absolute symlink. What realpath finds is only a
    suggestion: the kernel has the last word on it, under the same rule.
    """
    real_root = os.readlink(b"/proc/self/fd/%d" % root)
    real = os.path.realpath(os.path.join(real_root, relative), strict=True) + b"/"
    inside = real_root.rstrip(b"/") + b"/"
    if not real.startswith(inside):
        raise OSError(errno.EXDEV, "leaves the root")
    if not relative.endswith(b"/"):  # which asks for a directory: realpath would drop it
        real = real[:-1]
    return _openat2(root, real[len(inside) :] or b".", os.O_PATH, resolve)


@cache
def _how(flags: int, resolve: int) -> _OpenHow:
    return _OpenHow(flags | os.O_CLOEXEC, 0, resolve)  # the kernel only reads it


def _openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    how = _how(flags, resolve)
    for _ in range(_ATTEMPTS):
        fd: int = _syscall(_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number == errno.EINTR or (number == errno.EAGAIN and not resolve & _CACHED):
            continue
        break
    raise OSError(number, os.strerror(number))


def _missing(error: OSError) -> Missing:
    return _MISSING.get(error.errno or 0, Missing.IO_ERROR)
