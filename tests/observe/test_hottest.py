from __future__ import annotations

from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import parse_target
from edgebox.observe.hottest import LONGEST, MOST, PERIOD, Hottest, url_of


def test_a_steady_rate_is_told_as_what_it_makes_in_a_minute() -> None:
    hottest = Hottest()
    for _ in range(1200):
        hottest.note(b"a/", 5, 500)
        hottest.note(b"b/", 1, 10)
        hottest.turn()
    (first, hits, octets), (second, fewer, _) = hottest.most(2)
    assert (first, second) == ("a/", "b/")
    # Within what comes between two shrinkings.
    assert 250 <= hits <= 350
    assert 25_000 <= octets <= 35_000
    assert 50 <= fewer <= 70


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    hottest = Hottest()
    hottest.note(b"once/", 100, 1)
    for _ in range(60):
        hottest.turn()
    (_, hits, _), *_ = hottest.most(1)
    assert 10 < hits < 70
    for _ in range(PERIOD * 80):
        hottest.turn()
    assert hottest.most(1) == []


def test_many_urls_take_no_more_than_their_room_and_the_hot_ones_stay() -> None:
    hottest = Hottest()
    for number in range(10 * MOST):
        hottest.note(b"cold/%d" % number, 1, 1)
        hottest.note(b"hot/", 1, 1)
    assert hottest.statistics()["urls"] <= MOST + 1
    assert hottest.most(1)[0][0] == "hot/"
    hottest.note(b"x" * 10_000, 10**9, 1)
    assert hottest.most(1)[0][0] == "x" * LONGEST


def test_a_long_url_is_counted_as_any_other() -> None:
    hottest = Hottest()
    for _ in range(100):
        hottest.note(b"x" * (LONGEST + 1), 3, 10)
        hottest.note(b"y" * LONGEST, 3, 10)
    (longer, *of_longer), (shorter, *of_shorter) = hottest.most(2)
    assert {longer, shorter} == {"x" * LONGEST, "y" * LONGEST}
    assert of_longer == of_shorter


def test_a_url_has_its_host_and_no_query() -> None:
    target = parse_target(b"GET", b"/a%20b?c=d")
    assert not isinstance(target, int)
    request = Request(b"GET", target, b"example.com", Headers(()))  # type: ignore[arg-type]
    assert url_of(request) == b"example.com/a%20b"
