"""The field that instructs this cache is chosen as RFC 9213 has it."""

from __future__ import annotations

from collections.abc import Callable

import ccdirectives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.targeted import select_control
from edgebox.http.headers import Headers

CDN = (b"cdn-cache-control",)


def test_a_targeted_field_puts_cache_control_out_of_force(headers: Callable[..., Headers]) -> None:
    control = select_control(
        headers("Cache-Control: no-store", "CDN-Cache-Control: max-age=9"), CDN
    )
    assert control.targeted
    assert control.directives.seconds(b"max-age") == 9
    assert b"no-store" not in control.directives


def test_the_first_of_the_operators_list_wins(headers: Callable[..., Headers]) -> None:
    both = headers("CDN-Cache-Control: max-age=1", "Edgebox-Cache-Control: max-age=2")
    control = select_control(both, (b"edgebox-cache-control", *CDN))
    assert control.field == b"edgebox-cache-control"
    assert control.directives.seconds(b"max-age") == 2


@pytest.mark.parametrize(
    "value", ["", "max-age=10, &&&&", "MAX-AGE=10", "max-age =10", 'max-age="10"', "max-age=1.5"]
)
def test_a_field_that_says_nothing_valid_is_passed_over(
    headers: Callable[..., Headers], value: str
) -> None:
    control = select_control(headers(f"CDN-Cache-Control: {value}", "Cache-Control: no-store"), CDN)
    assert not control.targeted
    assert b"no-store" in control.directives


def test_an_unknown_directive_is_enough_to_be_valid(headers: Callable[..., Headers]) -> None:
    control = select_control(headers("CDN-Cache-Control: none", "Cache-Control: no-store"), CDN)
    assert control.targeted
    assert b"no-store" not in control.directives


@pytest.mark.parametrize("value", ["no-store=1", "private=x", "no-cache=5", "must-revalidate=a"])
def test_a_restriction_written_wrongly_still_restricts(
    headers: Callable[..., Headers], value: str
) -> None:
    name = value.partition("=")[0].encode()
    directives = select_control(headers(f"CDN-Cache-Control: {value}"), CDN).directives
    assert name in directives
    assert directives.covers_all(name)


def test_a_field_that_is_not_on_the_list_changes_nothing(headers: Callable[..., Headers]) -> None:
    control = select_control(headers("CDN-Cache-Control: no-store", "Cache-Control: public"), ())
    assert not control.targeted
    assert b"no-store" not in control.directives


VALUES = st.sampled_from(
    ["", "=60", "=-1", "=1.5", '="60"', "=tok", "=?0", "=?1", "=(a b)", '="a, b"', ";p=1", '="a b"']
)
MEMBERS = st.tuples(
    st.sampled_from(["max-age", "s-maxage", "no-store", "private", "no-cache", "public", "x"]),
    VALUES,
).map("".join)


@pytest.mark.slow
@given(st.lists(MEMBERS, max_size=4))
@settings(max_examples=100)
def test_another_reader_of_the_rfc_agrees(members: list[str]) -> None:
    line = ", ".join(members)
    theirs = ccdirectives.parse_targeted(line)
    control = select_control(Headers([(b"CDN-Cache-Control", line.encode())]), CDN)
    if theirs is None:
        assert not control.targeted
        return
    ours = control.directives
    for name in ("max-age", "s-maxage"):
        expected = (theirs.seconds(name) or 0) if theirs.has(name) else None
        assert ours.seconds(name.encode()) == expected
    for name in ("no-store", "private", "no-cache", "public"):
        assert (name.encode() in ours) == theirs.has(name)
