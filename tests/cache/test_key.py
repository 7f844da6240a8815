"""Two requests share a key only where the upstream sees the same URL, or the operator says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.cache.key import primary_key, related_key
from edgebox.cache.rules import KeyRules
from edgebox.http.headers import Headers
from edgebox.http.message import Request

Ask = Callable[..., Request]
PLAIN = KeyRules()


def hosted(request: Request, host: bytes) -> Request:
    return replace(request, headers=Headers([(b"Host", host)]))


def test_the_key_reads_like_the_url(ask: Ask) -> None:
    assert primary_key(ask(target=b"/a/b?x=1"), PLAIN) == b"http://example.com/a/b?x=1"
    assert primary_key(ask(), KeyRules(scheme=b"https")) == b"https://example.com/page"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"/a", b"/A"),
        (b"/a%2fb", b"/a/b"),
        (b"/a%2fb", b"/a%2Fb"),
        (b"/a", b"/a?"),
        (b"/a?x", b"/a?X"),
        (b"/a?x&y", b"/a?y&x"),
        (b"/me", b"/me;a.css"),
        (b"/me", b"/me%00.css"),
        (b"/a//b", b"/a/b"),
    ],
)
def test_what_the_upstream_may_tell_apart_has_keys_of_its_own(
    ask: Ask, one: bytes, other: bytes
) -> None:
    assert primary_key(ask(target=one), PLAIN) != primary_key(ask(target=other), PLAIN)


def test_the_authority_counts_without_case_and_default_port_but_with_any_other(ask: Ask) -> None:
    key = primary_key(ask(), PLAIN)
    assert primary_key(hosted(ask(), b"EXAMPLE.com:80"), PLAIN) == key
    assert primary_key(hosted(ask(), b"example.com:443"), PLAIN) != key
    assert primary_key(hosted(ask(), b"example.com:8080"), PLAIN) != key
    absolute = replace(ask(), target=replace(ask().target, authority=b"other.example"))
    assert primary_key(absolute, PLAIN) == b"http://other.example/page"


@pytest.mark.parametrize(
    ("query", "edited"),
    [
        (b"?a=1&utm_source=x&b=2&utm_=", b"?a=1&b=2"),
        (b"?utm_source=x", b""),
        (b"?fbclid", b""),
        (b"?xutm_source=x", b"?xutm_source=x"),
        (b"?", b"?"),
        (b"", b""),
    ],
)
def test_named_parameters_are_dropped(ask: Ask, query: bytes, edited: bytes) -> None:
    rules = KeyRules(drop_query=(b"utm_*", b"fbclid"))
    assert primary_key(ask(target=b"/p" + query), rules) == b"http://example.com/p" + edited


def test_sorting_goes_by_name_and_keeps_the_order_of_repeats(ask: Ask) -> None:
    rules = KeyRules(sort_query=True)
    assert primary_key(ask(target=b"/p?b=1&a=2&b=0&a"), rules).endswith(b"/p?a=2&a&b=1&b=0")


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        (b"", b"http://example.com/dir/page?q=1"),
        (b"/other", b"http://example.com/other"),
        (b"other?x=1#frag?y", b"http://example.com/dir/other?x=1"),
        (b"../up", b"http://example.com/up"),
        (b"http://example.com/abs", b"http://example.com/abs"),
        (b"http://EXAMPLE.com:80", b"http://example.com/"),
        (b"//example.com/net", b"http://example.com/net"),
        (b"https://example.com/page", None),
        (b"http://example.com:8080/page", None),
        (b"http://evil.example/page", None),
        (b"//evil.example/page", None),
        (b"http://[bad/page", None),
        (b"mailto:a@example.com", None),
    ],
)
def test_a_response_speaks_for_its_own_origin_only(
    ask: Ask, reference: bytes, key: bytes | None
) -> None:
    request = ask(target=b"/dir/page?q=1")
    assert related_key(request, reference, PLAIN) == key


@given(st.binary(max_size=30))
@settings(max_examples=40)
def test_no_reference_raises_or_leaves_the_origin(ask: Ask, reference: bytes) -> None:
    key = related_key(ask(), reference, PLAIN)
    assert key is None or key.startswith(b"http://example.com/")
