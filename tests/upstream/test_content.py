"""Where a body ends."""

from __future__ import annotations

import pytest

from edgebox.upstream.content import Endless, Measured, content_of
from edgebox.upstream.dechunk import Dechunker
from edgebox.upstream.reply import Ending, Reply


def test_a_measured_body_ends_with_its_last_octet() -> None:
    content = Measured(5)
    assert (content.feed(b"abc"), content.done) == (b"abc", False)
    assert (content.feed(b"de"), content.done, content.surplus) == (b"de", True, False)


def test_what_lies_beyond_is_cut_off_and_noticed() -> None:
    content = Measured(5)
    assert (content.feed(b"abcdefg"), content.done, content.surplus) == (b"abcde", True, True)


def test_an_empty_body_is_over_at_once() -> None:
    content = Measured(0)
    assert (content.feed(b""), content.done, content.surplus) == (b"", True, False)


def test_an_endless_body_is_never_done() -> None:
    content = Endless()
    assert (content.feed(b"abc"), content.done, content.until_close) == (b"abc", False, True)


@pytest.mark.parametrize(
    ("ending", "kind", "done"),
    [
        (Ending.AT_ONCE, Measured, True),
        (Ending.LENGTH, Measured, False),
        (Ending.CHUNKED, Dechunker, False),
        (Ending.CLOSE, Endless, False),
    ],
)
def test_each_ending_has_its_reader(ending: Ending, kind: type, done: bool) -> None:
    content = content_of(Reply(200, (), ending, 5, True, b""))
    assert (type(content), content.done) == (kind, done)
