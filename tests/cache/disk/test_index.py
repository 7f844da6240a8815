"""The index finds what it was told, survives a kill, and is made anew when it cannot be read."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebox.cache.disk.index import Index, Row, is_damaged, tags_of
from edgebox.cache.disk.layout import leaf_of, name_of
from edgebox.cache.disk.purge import Kind, Purge
from edgebox.cache.entry import StoredResponse
from tests.cache.disk.conftest import Fork, kill

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(os.fsencode(tmp_path))
    yield index
    index.close()


def row(key: bytes, used: int = 1000, tags: frozenset[bytes] = frozenset(), stamp: int = 1) -> Row:
    return Row(name_of(key), key, 4096, stamp, used, tags)


def keys(index: Index, purge: Purge) -> set[bytes]:
    """The keys of which `index` says that a purge may be about them, asked piece by piece."""
    found, after = set(), 0
    while page := index.concerned(purge, after, 2):
        found |= {name for _, name in page}
        after = page[-1][0]
    return found


def names(*given: bytes) -> set[bytes]:
    return {name_of(key) for key in given}


def test_the_longest_unused_come_first(index: Index) -> None:
    for key, used in ((b"b", 2000), (b"a", 1000), (b"c", 3000)):
        index.put(row(key, used))
    index.use([name_of(b"a")], 4000)
    assert [name for name, _ in index.oldest(2)] == [name_of(b"b"), name_of(b"c")]
    index.forget([name_of(b"b")])
    assert index.oldest(9)[0] == (name_of(b"c"), 4096)
    assert index.count() == 2


def test_looking_again_does_not_make_it_older(index: Index) -> None:
    index.put(row(b"a", 5000))
    index.put(row(b"b", 4000))
    index.put(row(b"a", 0, stamp=2))
    assert [name for name, _ in index.oldest(9)] == [name_of(b"b"), name_of(b"a")]
    assert index.stamps(leaf_of(name_of(b"a")))[name_of(b"a")] == 2


def test_each_leaf_has_its_own(index: Index) -> None:
    given = [b"%d" % number for number in range(300)]
    for key in given:
        index.put(row(key))
    found = [name for leaf in range(4096) for name in index.stamps(leaf)]
    assert sorted(found) == sorted(name_of(key) for key in given)


def test_purges_find_what_they_are_about(index: Index) -> None:
    a, b, c = b"http://a/x", b"http://a/x/y", b"http://b/x"
    index.put(row(a, tags=frozenset({b"tnews", b"ghttp://a\0g"})))
    index.put(row(b, tags=frozenset({b"tnews"})))
    index.put(row(c, tags=frozenset({b"tsport", b"ghttp://b\0g"})))
    for value, concerned in ((b"news", {a, b}), (b"sport", {c}), (b"n", set())):
        assert keys(index, Purge(kind=Kind.TAG, value=value)) == names(*concerned)
    group = Purge(kind=Kind.GROUP, value=b"g", origin=b"http://b")
    assert keys(index, group) == names(c)
    for prefix, concerned in ((b"http://a/x", {a, b}), (b"http://a/x/", {b}), (b"", {a, b, c})):
        assert keys(index, Purge(kind=Kind.PREFIX, value=prefix)) == names(*concerned)
    assert keys(index, Purge(kind=Kind.KEY, value=b)) == names(b)
    assert keys(index, Purge(kind=Kind.EVERYTHING)) == names(a, b, c)
    assert keys(index, Purge(kind=Kind.BAN, value=b"path = /x")) == names(a, b, c)


@pytest.mark.parametrize("prefix", [b"\xff", b"\xff\xff", b"k\xff", b"k\xff\xff"])
def test_prefixes_may_end_in_the_last_octet(index: Index, prefix: bytes) -> None:
    given = {prefix, prefix + b"a", prefix + b"\xff", b"k", b"l", b"", b"\xfe"}
    for key in given:
        index.put(row(key))
    concerned = names(*(key for key in given if key.startswith(prefix)))
    assert keys(index, Purge(kind=Kind.PREFIX, value=prefix)) >= concerned
    assert name_of(b"l") not in keys(index, Purge(kind=Kind.PREFIX, value=b"k\xff"))


def test_tags_go_with_their_key(index: Index) -> None:
    purge = Purge(kind=Kind.TAG, value=b"news")
    index.put(row(b"a", tags=frozenset({b"tnews"})))
    index.put(row(b"a", tags=frozenset({b"tsport"})))
    assert keys(index, purge) == set()
    index.put(row(b"a", tags=frozenset({b"tnews"})))
    index.forget([name_of(b"a")])
    index.put(row(b"b"))
    assert keys(index, purge) == set()


def test_what_a_response_is_tagged_by(keep: Callable[..., StoredResponse]) -> None:
    entry = keep("Cache-Control: max-age=9", "Surrogate-Key: a b", 'Cache-Groups: "g"')
    other = keep("Cache-Control: max-age=9", "Surrogate-Key: b c")
    tags = tags_of(b"https://example.com:8443/p?q", [entry, other])
    assert tags == {b"ta", b"tb", b"tc", b"ghttps://example.com:8443\0g"}


def test_what_was_committed_survives_a_kill(tmp_path: Path, fork: Fork) -> None:
    ready, tell = os.pipe()

    def work() -> None:
        index = Index(os.fsencode(tmp_path))
        index.put(row(b"a"))
        index.commit()
        index.put(row(b"b"))
        os.write(tell, b"!")
        signal.pause()

    child = fork(work)
    assert os.read(ready, 1) == b"!"
    kill(child)
    index = Index(os.fsencode(tmp_path))
    assert not index.fresh
    assert [name for name, _ in index.oldest(9)] == [name_of(b"a")]
    index.close()
    os.close(ready)
    os.close(tell)


@pytest.mark.parametrize("octets", [b"", b"SQLite format 3\0" + b"x" * 5000, b"nonsense" * 999])
def test_a_damaged_file_is_made_anew(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "index.sqlite").write_bytes(octets)
    index = Index(os.fsencode(tmp_path))
    assert index.fresh
    index.put(row(b"a"))
    assert index.count() == 1
    index.close()


def test_another_version_is_made_anew(tmp_path: Path, index: Index) -> None:
    index.put(row(b"a"))
    index.commit()
    index.close()
    database = sqlite3.connect(tmp_path / "index.sqlite")
    database.execute("PRAGMA user_version = 77")
    database.commit()
    database.close()
    again = Index(os.fsencode(tmp_path))
    assert again.fresh
    assert again.count() == 0
    again.close()


def test_damage_that_shows_later_is_told_from_other_trouble(tmp_path: Path, index: Index) -> None:
    for number in range(2000):
        index.put(row(b"%d" % number))
    index.commit()
    index.close()
    path = tmp_path / "index.sqlite"
    octets = bytearray(path.read_bytes())
    octets[4096 : 4096 * 20] = b"\xaa" * (4096 * 19)
    path.write_bytes(octets)
    damaged = Index(os.fsencode(tmp_path))
    with pytest.raises(sqlite3.DatabaseError) as caught:
        for leaf in range(4096):
            damaged.stamps(leaf)
        damaged.oldest(5000)
    assert is_damaged(caught.value)
    damaged.renew()
    assert damaged.count() == 0
    damaged.close()


def test_a_full_disk_is_no_damage(mounted: Callable[[str], Path]) -> None:
    directory = mounted("size=300k")
    index = Index(os.fsencode(directory))
    with pytest.raises(sqlite3.OperationalError) as caught:
        for number in range(2_000):
            index.put(row(b"%d" % number * 1000))
            index.commit()
    assert not is_damaged(caught.value)
    index.rollback()
    assert index.count() > 0
    index.close()
