"""What a purge is about, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.answer import Instant
from edgebox.cache.disk.purge import Kind, Mode, Purge, PurgeSet, apply, covers, hardest
from edgebox.cache.entry import StoredResponse

KEY = b"http://example.com/news/today?page=2"
Keep = Callable[..., StoredResponse]


@pytest.fixture
def entry(keep: Keep) -> StoredResponse:
    lines = ("Surrogate-Key: news front", 'Cache-Groups: "scripts"')
    return keep("Cache-Control: max-age=600", *lines)


@pytest.mark.parametrize(
    ("kind", "value", "origin", "covered"),
    [
        (Kind.EVERYTHING, b"", b"", True),
        (Kind.KEY, KEY, b"", True),
        (Kind.KEY, KEY[:-1], b"", False),
        (Kind.PREFIX, b"http://example.com/news", b"", True),
        (Kind.PREFIX, b"http://example.com/sport", b"", False),
        (Kind.TAG, b"front", b"", True),
        (Kind.TAG, b"Front", b"", False),
        (Kind.TAG, b"scripts", b"", False),
        (Kind.GROUP, b"scripts", b"http://example.com", True),
        (Kind.GROUP, b"scripts", b"http://example.co", False),
        (Kind.GROUP, b"scripts", b"http://example.com/news", False),
        (Kind.GROUP, b"scripts", b"https://example.com", False),
        (Kind.GROUP, b"news", b"http://example.com", False),
        (Kind.BAN, b"path ~ ^/news/", b"", True),
        (Kind.BAN, b"path ~ ^/sport/", b"", False),
        (Kind.BAN, b"what another version wrote", b"", True),
    ],
)
def test_what_each_kind_covers(
    entry: StoredResponse, kind: Kind, value: bytes, origin: bytes, covered: bool
) -> None:
    assert covers(Purge(kind=kind, value=value, origin=origin), KEY, entry) is covered


def test_what_each_mode_leaves(entry: StoredResponse, later: Callable[..., Instant]) -> None:
    at = later(100.0)
    assert apply(Mode.REMOVE, entry, at) is None
    validate, expire = apply(Mode.VALIDATE, entry, at), apply(Mode.EXPIRE, entry, at)
    assert validate is not None
    assert validate.invalid
    assert expire is not None
    assert expire.remaining(at) <= 0 < entry.remaining(at)
    assert expire.remaining(later(110.0)) == pytest.approx(-10, abs=1)  # windows begin at once


@pytest.mark.parametrize("mode", [Mode.VALIDATE, Mode.EXPIRE])
def test_the_same_purge_twice_changes_nothing_more(
    entry: StoredResponse, later: Callable[..., Instant], mode: Mode
) -> None:
    once = apply(mode, entry, later(100.0))
    assert once is not None
    assert apply(mode, once, later(100.0)) is once


def test_a_purge_before_a_reboot_is_as_long_ago_after_it(later: Callable[..., Instant]) -> None:
    then, now = later(0.0), Instant(later(50.0).wall, 7.0)
    purge = Purge(kind=Kind.EVERYTHING, wall=then.wall, steady=then.steady, boot=b"a" * 16)
    assert purge.at(now, b"a" * 16) == then
    assert now.steady - purge.at(now, b"b" * 16).steady == pytest.approx(50.0)


BANS = [b"path ~ ^/news/", b"path ~ ^/sport/"]
NAMES = [b"", b"a", b"news", b"front", b"scripts", b"http://example.com/", KEY, KEY + b"0", *BANS]
ORIGINS = [b"", b"http://example.com", b"http://example.org"]
purges = st.builds(
    Purge,
    kind=st.sampled_from(Kind),
    value=st.sampled_from(NAMES),
    origin=st.sampled_from(ORIGINS),
    mode=st.sampled_from(Mode),
    tick=st.integers(0, 20),
)


@given(st.lists(purges), st.integers(0, 20))
def test_a_set_knows_what_its_purges_would_do_one_by_one(
    keep: Keep, given: list[Purge], born: int
) -> None:
    lines = ("Surrogate-Key: news front", 'Cache-Groups: "scripts", "a"')
    entry = keep("Cache-Control: max-age=600", *lines)
    given = sorted(given, key=lambda purge: purge.tick)
    one_by_one = {p.mode for p in given if p.tick > born and covers(p, KEY, entry)}
    together = PurgeSet()
    for purge in given:
        together.add(purge)
    assert {purge.mode for purge in together.concerning(KEY, entry, born)} == one_by_one
    assert len(together) == len(given)


def test_the_hardest_mode_wins() -> None:
    modes = [Mode.EXPIRE, Mode.REMOVE, Mode.VALIDATE]
    assert hardest(Purge(kind=Kind.EVERYTHING, mode=mode) for mode in modes) is Mode.REMOVE
    assert hardest([]) is Mode.EXPIRE
