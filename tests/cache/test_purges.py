"""What a purge names, and what it means for fetches that were begun before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import MOST, Purge, RecentPurges, Scope, banned, origin_of

Keep = Callable[..., StoredResponse]
HOUR = "Cache-Control: max-age=3600"
KEY = b"http://example.com/blog/1?a=b"


@pytest.fixture(scope="module")
def stored(keep: Keep) -> StoredResponse:
    return keep(HOUR, "Surrogate-Key: news front", 'Cache-Groups: "my group"')


def test_a_ban_covers_what_its_rule_matches(stored: StoredResponse) -> None:
    assert banned("path ~ ^/blog/ and status = 200").covers(KEY, stored)
    assert not banned("path ~ ^/news/").covers(KEY, stored)
    assert banned("path ~ ^/news/").may_cover(KEY)  # of an answer under way nothing is known
    assert banned("host = x") == banned("host = x")
    assert Purge(Scope.BAN, b"nonsense").covers(KEY, stored)


@pytest.mark.parametrize(
    ("scope", "value", "covers", "may_cover"),
    [
        (Scope.KEY, KEY, True, True),
        (Scope.KEY, b"http://example.com/blog/1", False, False),
        (Scope.PREFIX, b"http://example.com/blog/", True, True),
        (Scope.PREFIX, b"http://example.com/news/", False, False),
        (Scope.PREFIX, b"http://example.co", True, True),
        (Scope.TAG, b"news", True, True),
        (Scope.TAG, b"new", False, True),  # it may yet turn out to bear the tag
        (Scope.TAG, b"NEWS", False, True),
        (Scope.GROUP, b"http://example.com my group", True, True),
        (Scope.GROUP, b"http://example.com your group", False, True),
        (Scope.GROUP, b"http://other.com my group", False, False),
        (Scope.ALL, b"", True, True),
    ],
)
def test_scopes(
    stored: StoredResponse, scope: Scope, value: bytes, covers: bool, may_cover: bool
) -> None:
    purge = Purge(scope, value)
    assert purge.covers(KEY, stored) is covers
    assert purge.may_cover(KEY) is may_cover


def test_a_fetch_is_concerned_by_purges_since_it_began_and_by_no_others(
    stored: StoredResponse,
) -> None:
    purges = RecentPurges()
    purges.add(Purge(Scope.KEY, KEY), 1.0)
    mark = purges.mark
    assert not purges.since(mark, KEY, stored)
    purges.add(Purge(Scope.KEY, b"http://example.com/other"), 1.0)
    assert not purges.since(mark, KEY, stored)
    purges.add(Purge(Scope.TAG, b"front"), 1.0)
    assert purges.since(mark, KEY, stored)
    assert not purges.since(purges.mark, KEY, stored)


def test_what_is_older_than_memory_counts_as_purged(stored: StoredResponse) -> None:
    purges = RecentPurges()
    before = purges.mark
    for _ in range(MOST):
        purges.add(Purge(Scope.KEY, b"http://example.com/other"), 1.0)
    assert not purges.since(before, KEY, stored)
    purges.add(Purge(Scope.KEY, b"http://example.com/other"), 1.0)
    assert purges.since(before, KEY, stored)
    assert not purges.since(before + 1, KEY, stored)


@pytest.mark.parametrize(
    ("key", "origin"),
    [
        (b"http://a.b:81/c/d", b"http://a.b:81"),
        (b"http://a.b", b"http://a.b"),
        (b"http://[::1]:80/", b"http://[::1]:80"),
    ],
)
def test_origin(key: bytes, origin: bytes) -> None:
    assert origin_of(key) == origin


def test_what_another_worker_began_before_a_purge_may_be_purged() -> None:
    purges = RecentPurges()
    assert not purges.since_moment(10.0, KEY)
    purges.add(Purge(Scope.KEY, KEY), 20.0)
    purges.add(Purge(Scope.KEY, b"http://example.com/other"), 30.0)
    assert purges.since_moment(19.9, KEY)
    assert purges.since_moment(20.0, KEY)  # the same moment: nobody knows which was first
    assert not purges.since_moment(20.1, KEY)
    purges.add(Purge(Scope.TAG, b"any"), 40.0)
    assert purges.since_moment(30.0, KEY)  # its tags are not known yet
    for _ in range(MOST):
        purges.add(Purge(Scope.KEY, b"http://example.com/other"), 50.0)
    assert purges.since_moment(40.0, KEY)  # what is forgotten may have concerned it
    assert not purges.since_moment(41.0, KEY)
