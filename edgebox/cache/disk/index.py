"""The housekeeper's index: what is stored, how large it is, when it was used, by which tags.

One row for a key with all its variants. Nothing that is served depends on it: it may lag
behind the files, be lost, or be damaged, and is then filled again from them. WAL with
synchronous=NORMAL survives a kill and a power cut, less its last second.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from edgebox.cache.disk.layout import INDEX, names_in
from edgebox.cache.disk.purge import Kind, Purge, origin_of
from edgebox.cache.entry import StoredResponse

VERSION = 1
_CACHE_KIB = 8 * 1024
_GRAIN = 60  # seconds: a use is noted only if the last that was noted is so long ago

_SCHEMA = f"""
CREATE TABLE kept (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL UNIQUE,
    key BLOB NOT NULL,
    footprint INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    used INTEGER NOT NULL
);
CREATE INDEX kept_by_use ON kept (used);
CREATE TABLE tagged (
    tag BLOB NOT NULL,
    id INTEGER NOT NULL REFERENCES kept ON DELETE CASCADE,
    PRIMARY KEY (tag, id)
) WITHOUT ROWID;
CREATE INDEX tagged_by_id ON tagged (id);
PRAGMA user_version = {VERSION};
"""
_PUT = """
INSERT INTO kept (name, key, footprint, stamp, used) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET key = excluded.key, footprint = excluded.footprint,
    stamp = excluded.stamp, used = max(used, excluded.used)
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Row:
    """`stamp` is a hash of the files' inodes, sizes and times of change; `used` in seconds
    since 1970; `tags` as `tags_of` gives them."""

    name: bytes
    key: bytes
    footprint: int
    stamp: int
    used: int
    tags: frozenset[bytes] = frozenset()


class Index:
    """Raises sqlite3.Error throughout; `is_damaged` tells the kind that ends in `renew`."""

    def __init__(self, directory: bytes) -> None:
        self._path = os.fsdecode(os.path.join(directory, INDEX))
        self.fresh = False  # made anew, so without what lies there
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self.renew()

    def renew(self) -> None:
        """Begin an empty one."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self._path + suffix)
        self._open()

    def close(self) -> None:
        self._database.close()

    def put(self, row: Row) -> None:
        self._begin()
        values = (row.name, row.key, row.footprint, row.stamp, row.used)
        ((number,),) = self._database.execute(_PUT, values).fetchall()
        self._database.execute("DELETE FROM tagged WHERE id = ?", (number,))
        self._database.executemany(
            "INSERT INTO tagged VALUES (?, ?)", [(tag, number) for tag in row.tags]
        )

    def forget(self, names: Iterable[bytes]) -> None:
        self._begin()
        self._database.executemany("DELETE FROM kept WHERE name = ?", [(name,) for name in names])

    def use(self, names: Iterable[bytes], at: int) -> None:
        self._begin()
        self._database.executemany(
            "UPDATE kept SET used = ? WHERE name = ? AND used < ?",
            [(at, name, at - _GRAIN) for name in names],
        )

    def commit(self) -> None:
        if self._database.in_transaction:
            self._database.execute("COMMIT")

    def rollback(self) -> None:
        with suppress(sqlite3.Error):
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def stamps(self, leaf: int) -> dict[bytes, int]:
        """Name to stamp of all that is known of one directory."""
        query = "SELECT name, stamp FROM kept WHERE name >= ? AND name < ?"
        return dict(self._database.execute(query, names_in(leaf)).fetchall())

    def oldest(self, most: int) -> list[tuple[bytes, int]]:
        """(name, footprint), the longest unused first."""
        query = "SELECT name, footprint FROM kept ORDER BY used LIMIT ?"
        return self._database.execute(query, (most,)).fetchall()

    def page(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """(number, name) of rows with numbers beyond `after`, in their order."""
        return self.concerned(Purge(kind=Kind.EVERYTHING), after, most)

    def concerned(self, purge: Purge, after: int, most: int) -> list[tuple[int, bytes]]:
        """The same of rows that a purge may be about."""
        where, values = _condition(purge)
        query = f"SELECT kept.id, name FROM {where} AND kept.id > ? ORDER BY kept.id LIMIT ?"
        return self._database.execute(query, (*values, after, most)).fetchall()

    def count(self) -> int:
        ((count,),) = self._database.execute("SELECT count(*) FROM kept").fetchall()
        return int(count)

    def _open(self) -> None:
        new = not os.path.exists(self._path)
        self._database = sqlite3.connect(self._path, isolation_level=None, timeout=1.0)
        for pragma in (
            "journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON",
            f"cache_size = -{_CACHE_KIB}", "journal_size_limit = 4194304",
        ):  # fmt: skip
            self._database.execute(f"PRAGMA {pragma}")
        if new:
            os.chmod(self._path, 0o600)
        ((version,),) = self._database.execute("PRAGMA user_version").fetchall()
        if version != VERSION:
            if version or not new:
                raise sqlite3.DatabaseError("the index is of another version")
            self._database.executescript(_SCHEMA)
            self.fresh = True

    def _begin(self) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")


def tags_of(key: bytes, entries: Sequence[StoredResponse]) -> frozenset[bytes]:
    """What responses of a key can be purged by, apart from the key."""
    origin = origin_of(key)
    words = {b"t" + tag for entry in entries for tag in entry.tags}
    return frozenset(words | {_group(origin, name) for e in entries for name in e.groups})


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file is no database, or a broken one, or of another version."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or (code & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _group(origin: bytes, name: bytes) -> bytes:
    return b"g%s\0%s" % (origin, name)


def _condition(purge: Purge) -> tuple[str, list[bytes]]:
    match purge.kind:
        case Kind.TAG:
            return "tagged JOIN kept USING (id) WHERE tag = ?", [b"t" + purge.value]
        case Kind.GROUP:
            tag = _group(purge.origin, purge.value)
            return "tagged JOIN kept USING (id) WHERE tag = ?", [tag]
        case Kind.PREFIX:
            # The least that begins otherwise: the prefix with its last octet one higher.
            stem = purge.value.rstrip(b"\xff")
            if not stem:
                return "kept WHERE key >= ?", [purge.value]
            beyond = stem[:-1] + bytes([stem[-1] + 1])
            return "kept WHERE key >= ? AND key < ?", [purge.value, beyond]
        case Kind.KEY:
            return "kept WHERE key = ?", [purge.value]
        case Kind.EVERYTHING | Kind.BAN:  # of rules only the records themselves know
            return "kept WHERE 1", []
