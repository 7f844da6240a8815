"""Accept-Encoding: weights as the client means them, and a canonical form that means the same."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.negotiate import acceptable, choose, normalise

KNOWN = (b"br", b"zstd", b"gzip")  # the server's order


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        (None, b""),
        (b"", b""),
        (b" , ", b""),
        (b"gzip", b"gzip"),
        (b"GZIP", b"gzip"),
        (b"x-gzip", b"gzip"),
        (b"gzip, deflate, br, zstd", b"br"),  # today's browsers: equals, so our order
        (b"gzip, deflate", b"gzip"),
        (b"deflate", b""),
        (b"gzip;q=0.9, br;q=0.8", b"gzip"),
        (b"br;q=0.001", b"br"),
        (b"br;q=0", b""),
        (b"br;q=0.000, gzip ; q=0.5", b"gzip"),
        (b"br\t;\tQ=1.000", b"br"),
        (b"*", b"br"),
        (b"*;q=0.5, gzip", b"gzip"),
        (b"br;q=0, *", b"zstd"),
        (b"identity", b""),
        (b"identity, gzip", b"gzip"),  # equals: identity is offered last
        (b"identity, gzip;q=0.5", b""),
        (b"identity;q=0.5, gzip;q=0.8", b"gzip"),
        (b"gzip;q=1.0, identity; q=0.5, *;q=0", b"gzip"),  # RFC 9110 §12.5.3
        (b"*;q=0.5, gzip;q=0.1, br;q=0.1, zstd;q=0.1", b""),
        (b"identity;q=0", None),
        (b"*;q=0", None),
        (b"*;q=0, identity", b""),
        (b"*;q=0, identity;q=0.001", b""),
        (b"identity;q=0, deflate", None),
        (b"identity;q=0, gzip;q=0.1", b"gzip"),
        (b"identity;q=0, *;q=0.1", b"br"),
        (b"gzip, gzip;q=0", b""),  # a refusal stands, wherever it is
        (b"gzip;q=0, x-gzip", b""),
    ],
)
def test_the_best_coding_is_chosen(value: bytes | None, chosen: bytes | None) -> None:
    assert choose(value, KNOWN) == chosen


@pytest.mark.parametrize(
    "member",
    [
        b"br;q=2",
        b"br;q=1.001",
        b"br;q=0.5000",
        b"br;q=-1",
        b"br;q=.5",
        b"br;q=",
        b"br;q",
        b"br;",
        b"br; q =1",
        b"br;level=9",
        b"br;q=1;q=1",
        b"b r",
        b"br gzip",
        b'"br"',
        b'x="a,br,b"',
        b"br\xe9",
        b"br\x00",
        b";q=1",
        b"identity;q=0.0000",
    ],
)
def test_malformed_members_are_ignored_and_the_rest_counts(member: bytes) -> None:
    assert choose(member, KNOWN) == b""
    assert choose(member + b", gzip;q=0.5", KNOWN) == b"gzip"
    assert choose(b"gzip;q=0.5, " + member, KNOWN) == b"gzip"


def test_only_what_is_offered_is_chosen() -> None:
    assert choose(b"br, gzip;q=0.5", ()) == b""
    assert choose(b"br, gzip;q=0.5", (b"gzip",)) == b"gzip"
    assert choose(b"br, identity;q=0", (b"gzip",)) is None


def test_weights_have_three_decimals() -> None:
    wanted = acceptable(
        b"a;q=0, b;q=0.5, c;q=0.25, d;q=0.125, e;q=1, f, g;q=0., h;q=1.0, *;q=0.007"
    )
    assert [wanted.weight(c) for c in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h")] == [
        *(0, 500, 250, 125, 1000, 1000, 0, 1000)
    ]
    assert wanted.weight(b"i") == wanted.weight(b"") == 7


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, b""),
        (b"", b""),
        (b"deflate, compress;q=0.5", b""),
        (b"gzip;q=0", b""),
        (b"gzip, deflate, br, zstd", b"br, zstd, gzip"),
        (b"zstd;q=1.0, br;q=1.0, x-gzip;q=0.9", b"br, zstd, gzip"),
        (b"*", b"br, zstd, gzip"),
        (b"gzip, br;q=0.5", b"gzip, br;q=0.999"),
        (b"gzip;q=0.3, zstd;q=0.2, br;q=0.1", b"gzip, zstd;q=0.999, br;q=0.998"),
        (b"identity, gzip;q=0.5", b""),
        (b"identity;q=0, gzip;q=0.1", b"gzip, identity;q=0"),
        (b"*;q=0", b"identity;q=0"),
    ],
)
def test_spellings_come_down_to_one_form(value: bytes | None, form: bytes) -> None:
    assert normalise(value, KNOWN) == form


codings = st.sampled_from([*KNOWN, b"x-gzip", b"Gzip", b"deflate", b"identity", b"*", b"b r"])
weights = st.sampled_from(
    [b"", b";q=0", b";q=1", b";q=0.5", b"; q=0.001", b";q=0.002", b";q=0.999", b";q=7"]
)
fields = st.one_of(
    st.none(),
    st.lists(st.builds(bytes.__add__, codings, weights), max_size=7).map(b", ".join),
    st.text('brgzip*;q=0.1, "', max_size=25).map(str.encode),
    st.binary(max_size=25),
)


@given(fields, st.permutations(KNOWN))
@pytest.mark.slow
@settings(max_examples=150)
def test_the_form_chooses_as_the_field_does_for_any_codings_on_offer(
    value: bytes | None, known: list[bytes]
) -> None:
    """Hence equal forms always choose equally: the form alone decides."""
    form = normalise(value, known)
    for count in range(len(known) + 1):
        for offered in combinations(known, count):
            assert choose(form, offered) == choose(value, offered)


@settings(max_examples=40)
@given(fields)
def test_the_form_is_a_fixed_point(value: bytes | None) -> None:
    form = normalise(value, KNOWN)
    assert normalise(form, KNOWN) == form


def test_there_are_32_forms_and_no_more() -> None:
    """An order of preference over some of three codings, 16 of them, and identity or not."""
    weights = (b"0", b"0.3", b"0.6", b"1")
    forms = {
        normalise(b"br;q=%s, zstd;q=%s, gzip;q=%s%s" % (*qs, rest), KNOWN)
        for qs in product(weights, repeat=3)
        for rest in (b"", b", identity;q=0", b", *;q=0", b", identity;q=0.5", b", x")
    }
    assert len(forms) == 32


@settings(max_examples=40)
@given(fields, st.lists(st.sampled_from(KNOWN), unique=True))
def test_what_is_chosen_was_offered_and_not_refused(
    value: bytes | None, offered: list[bytes]
) -> None:
    chosen = choose(value, offered)
    wanted = acceptable(value)
    if chosen is None:
        assert not any(wanted.weight(c) for c in (*offered, b""))
    else:
        assert chosen in (*offered, b"")
        assert wanted.weight(chosen) == max(wanted.weight(c) for c in (*offered, b""))
        assert wanted.weight(chosen) > 0
