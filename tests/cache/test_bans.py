"""Which stored answers a ban is about, and what is no ban."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.bans import LONGEST, Ban, BanError, maybe_ban, parse_ban
from edgebox.cache.entry import StoredResponse

Keep = Callable[..., StoredResponse]
KEY = b"http://www.example.com:8080/news/today?page=2"


@pytest.fixture(scope="module")
def stored(keep: Keep) -> StoredResponse:
    return keep("Cache-Control: max-age=600", "Content-Type: text/html", "X-Tag: a", "X-Tag: b c")


@pytest.mark.parametrize(
    "text",
    [
        "url = http://www.example.com:8080/news/today?page=2",
        "url ~ page=[0-9]$",
        "host = WWW.example.com",
        "HOST == www.example.com",
        r"host ~ EXAMPLE\.com$",
        "path = /news/today?page=2",
        'path ~ "^/news/"',
        "path!~^/sport/",
        "status = 200",
        "status != 404",
        "header.content-type = text/html",
        'header.X-Tag = "a, b c"',
        "header.X-None = \"\"",
        r'header.x-tag ~ "b\sc"',
        r'header.x-tag !~ "\""',
        "host = www.example.com and path ~ ^/news/ and header.X-Tag ~ a",
    ],
)  # fmt: skip
def test_what_matches(stored: StoredResponse, text: str) -> None:
    assert parse_ban(text).matches(KEY, stored)


@pytest.mark.parametrize(
    "text",
    [
        "host = example.com",
        "host = www.example.com:8080",
        "path = /news/today",
        "path ~ ^/NEWS/",
        "status = 20",
        "header.content-type = text/plain",
        "header.x-none ~ .",
        "host = www.example.com and path ~ ^/sport/",
    ],
)
def test_what_does_not(stored: StoredResponse, text: str) -> None:
    assert not parse_ban(text).matches(KEY, stored)


def test_ports_and_brackets(stored: StoredResponse) -> None:
    assert parse_ban("host = [::1]").matches(b"http://[::1]:80/", stored)
    assert parse_ban("host = [::1]").matches(b"http://[::1]/", stored)
    assert parse_ban("path = /").matches(b"http://h/", stored)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at character 1: want FIELD = VALUE"),
        ("host", "want FIELD = VALUE"),
        ("host = ", "want FIELD = VALUE"),
        ("age = 5", 'no field "age"; there are url, host, path'),
        ("header. = 5", "want FIELD = VALUE"),
        ("header = 5", "there is no field"),
        ("path ~ (", "( is no regular expression"),
        ("path = a b", 'at character 10: only "and" may come'),
        ("path = a and", "want FIELD = VALUE"),
        ('path = "a', "want FIELD = VALUE"),
        ("path = " + "a" * LONGEST, f"a ban may have {LONGEST} octets"),
        ("path = \udcff", "at character 8: this is no UTF-8"),
    ],
)
def test_what_is_no_ban_says_why(text: str, told: str) -> None:
    with pytest.raises(BanError) as refused:
        parse_ban(text)
    assert told in str(refused.value)


@given(st.text(alphabet='hostpaurlnd.=~! "\\()[]ä/*', max_size=30) | st.text())
def test_any_text_is_a_ban_or_none_with_a_reason(text: str) -> None:
    with suppress(BanError):
        ban = parse_ban(text)
        assert ban.tests
        assert maybe_ban(ban.text.encode()) is not None


@given(st.binary(max_size=40))
def test_what_was_written_down_is_a_ban_or_unknown(octets: bytes) -> None:
    assert isinstance(maybe_ban(octets), Ban | None)
