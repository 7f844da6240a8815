"""What a worker gives up before it serves: root, the rest of the file system, new powers.

In this order: the root directory is changed while we may, then the user, then nothing that is
executed later can gain anything (no_new_privs), then the kernel lets nothing be opened but
what is listed (landlock(7)). Each is given up for good, by helpers started later as well.

Calls that Python has no name for go through ctypes. See credentials(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import grp
import os
import pwd
from contextlib import suppress

from edgebox.ops.processes.assignment import Identity

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class PrivilegeError(Exception):
    """Something cannot be given up as configured; the message says what to change."""


def find_identity(user: str, group: str) -> Identity | None:
    """Who workers are to become; None: they stay who we are. Raises PrivilegeError."""
    if not user:
        return None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise PrivilegeError(f"server.user: there is no user {user!r}") from None
    try:
        gid = grp.getgrnam(group).gr_gid if group else entry.pw_gid
    except KeyError:
        raise PrivilegeError(f"server.group: there is no group {group!r}") from None
    if os.geteuid() not in (0, entry.pw_uid):
        raise PrivilegeError(f"server.user: to become {user!r} takes a start as root")
    groups = tuple(sorted({*os.getgrouplist(user, entry.pw_gid), gid}))
    return Identity(name=user, user=entry.pw_uid, group=gid, groups=groups)


def enter_chroot(path: str) -> None:
    """Lock this process into `path`. Raises PrivilegeError."""
    try:
        os.chroot(path)
        os.chdir("/")
    except OSError as problem:
        raise PrivilegeError(f"server.chroot: {path}: {problem.strerror}") from problem


def need_proc(path: str) -> None:
    """Raises PrivilegeError where the chroot at `path`, which we are in, has no proc(5)."""
    if not os.path.isdir("/proc/self/fd"):
        raise PrivilegeError(f"server.chroot: {path} has no /proc: mount -t proc proc {path}/proc")


def become(identity: Identity) -> None:
    """Be `identity` and nobody else, for good. Raises PrivilegeError."""
    if os.geteuid() == identity.user != 0:
        return
    try:
        os.setgroups(identity.groups)
        os.setresgid(identity.group, identity.group, identity.group)
        os.setresuid(identity.user, identity.user, identity.user)
    except OSError as problem:
        raise PrivilegeError(f"server.user: {identity.name}: {problem.strerror}") from problem


def forbid_new_privileges() -> None:
    """No program that is executed from here on gains what we have not.

    Who is not root keeps no capability either: that for low ports was the supervisor's.
    """
    if os.geteuid() != 0:
        _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        _libc.capset(header, (ctypes.c_uint32 * 6)())
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def own(path: str, identity: Identity, *, directory: bool) -> None:
    """Make a file or directory that is not there, as its new owner would.

    Nothing that is there is touched, nor is a link followed: whoever may write beside it could
    have put one there for root to fall for.
    """
    if directory:
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, 0o750)
            os.chown(path, identity.user, identity.group, follow_symlinks=False)
        return
    with suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            os.fchown(fd, identity.user, identity.group)
        finally:
            os.close(fd)


# --- landlock -------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15  # and truncate, ioctl
# Rights on files and directories that each version of the interface knows: linux/landlock.h.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """Of the kernel's interface; 0 where it has none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def confine(readable: list[str], writable: list[str]) -> bool:
    """Let this process open nothing but what lies in these directories or files.

    False where the kernel has no landlock. What is not there is left out. Needs
    `forbid_new_privileges` before. Raises OSError.
    """
    version = landlock_version()
    if not version:
        return False
    every = (1 << _RIGHTS[min(version, 5)]) - 1
    attributes = _Ruleset(every)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    rules = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in readable:
            _allow(rules, path, every & _READ)
        for path in writable:
            _allow(rules, path, every)
        _check(_libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)
    return True


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            rights &= _OF_FILES
        rule = _PathBeneath(rights, fd)
        _check(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(fd)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number or errno.EINVAL)}")
    return result
