"""Walks a docroot for files that could be asked for, under its site's own policy.

Its answers are good guesses for `edgebox precompress`: whoever opens a file judges the
policy again, on the descriptor. Directories are entered once, however many links lead
there. Knows no types, no sizes and no codings.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from edgebox.files.entry import Docroot, Identity, has_dotfile


class Skip(Enum):
    """Why a name is passed over; the value tells an operator."""

    DOTFILE = "dotfile"
    SYMLINK = "symlink not to be followed"
    GONE = "vanished, or a dangling symlink"
    SPECIAL = "not a regular file"


class Seen(NamedTuple):
    """One name below a root: `what` is its identity, or why there is none."""

    path: bytes  # relative to the root, no slash in front
    what: Identity | Skip | OSError


def walk(docroot: Docroot, dotfiles: bool) -> Iterator[Seen]:
    """Every file below the root, depth first, in the order of names.

    Errors of single directories and names come as values; so does that of the root itself.
    """
    real_root = os.path.realpath(docroot.root)
    entered: set[tuple[int, int]] = set()
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        absolute = os.path.join(docroot.root, directory)
        try:
            facts = os.stat(absolute)
            if (facts.st_dev, facts.st_ino) in entered:
                continue
            entered.add((facts.st_dev, facts.st_ino))
            names = sorted(os.listdir(absolute))
        except OSError as error:
            yield Seen(directory, error)
            continue
        below = []
        for name in names:
            path = os.path.join(directory, name)
            if not dotfiles and has_dotfile(b"/" + path + b"/"):
                yield Seen(path, Skip.DOTFILE)
                continue
            what = _look(docroot, real_root, path)
            if what is None:
                below.append(path)
            else:
                yield Seen(path, what)
        waiting.extend(reversed(below))


def _look(docroot: Docroot, real_root: bytes, path: bytes) -> Identity | Skip | OSError | None:
    """What a name is; None for a directory to enter."""
    absolute = os.path.join(docroot.root, path)
    try:
        facts = os.lstat(absolute)
        if stat.S_ISLNK(facts.st_mode):
            if not _may_follow(docroot, real_root, absolute):
                return Skip.SYMLINK
            facts = os.stat(absolute)
    except FileNotFoundError:
        return Skip.GONE
    except OSError as error:
        return Skip.SYMLINK if error.errno == errno.ELOOP else error
    if stat.S_ISDIR(facts.st_mode):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return Skip.SPECIAL
    return Identity.of(facts)


def _may_follow(docroot: Docroot, real_root: bytes, absolute: bytes) -> bool:
    if docroot.symlinks == "within-root":
        target = os.path.realpath(absolute)
        return target == real_root or target.startswith(real_root.rstrip(b"/") + b"/")
    return docroot.symlinks == "follow"
