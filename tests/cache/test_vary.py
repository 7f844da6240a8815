"""A stored response fits the requests that its Vary lets it fit, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.vary import (
    Variant,
    choose_variant,
    describe_variant,
    fits,
    surplus_variants,
    vary_names,
)
from edgebox.http.headers import Headers
from edgebox.http.negotiate import acceptable

Make = Callable[..., Headers]
CODINGS = (b"br", b"zstd", b"gzip")


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([], ()),
        (["Vary: "], ()),
        (["Vary: Foo, bar,,FOO"], (b"bar", b"foo")),
        (["Vary: a", "Vary: b"], (b"a", b"b")),
        (["Vary: *"], None),
        (["Vary: , *"], None),
        (["Vary: ", "Vary: *"], None),
        (["Vary: a, *"], None),
        (["Vary: Accept, X-Request-Id"], None),
        (["Vary: traceparent"], None),
    ],
)
def test_vary_names_fields_or_everything(
    headers: Make, lines: list[str], names: tuple[bytes, ...] | None
) -> None:
    assert vary_names(headers(*lines)) == names


def same(headers: Make, vary: str, stored: list[str], asked: list[str], *answered: str) -> bool:
    variant = describe_variant(headers(*stored), headers(f"Vary: {vary}", *answered), CODINGS)
    return fits(variant, headers(*asked))


@pytest.mark.parametrize(
    ("vary", "stored", "asked", "fit"),
    [
        ("Foo", ["Foo: 1"], ["Foo: 1"], True),
        ("Foo", ["Foo: 1"], ["Foo: 2"], False),
        ("Foo", ["Foo: 1"], [], False),
        ("Foo", [], ["Foo: 1"], False),
        ("Foo", [], ["Foo: "], False),
        ("Foo", [], [], True),
        ("Foo", ["Foo: 1", "Other: 2"], ["Foo: 1", "Other: 3"], True),
        ("Foo, Bar", ["Foo: 1"], ["Foo: 1"], True),
        ("Foo, Bar", ["Foo: 1"], ["Foo: 1", "Bar: 2"], False),
        ("Foo", ["Foo: 1,2"], ["Foo:  1, 2 "], True),
        ("Foo", ["Foo: 1, 2"], ["Foo: 1", "Foo: 2"], True),
        ("Foo", ["Foo: 1, 2"], ["Foo: 2, 1"], False),
        ("Foo", ['Foo: "1,2"'], ['Foo: "1, 2"'], False),
        ("Foo", ["Foo: A"], ["Foo: a"], False),
        ("Accept-Encoding", ["Accept-Encoding: gzip, br"], ["Accept-Encoding: br,gzip"], True),
        ("Accept-Encoding", ["Accept-Encoding: gzip, lzma"], ["Accept-Encoding: gzip"], True),
        ("Accept-Encoding", ["Accept-Encoding: gzip"], ["Accept-Encoding: br"], False),
        ("Accept-Encoding", ["Accept-Encoding: gzip"], ["Accept-Encoding: gzip;q=0"], False),
        ("Accept-Language", ["Accept-Language: en, de"], ["Accept-Language: De,eN"], True),
        ("Accept-Language", ["Accept-Language: a, b;q=.5"], ["Accept-Language: b;q=.5,A"], False),
        ("Accept-Language", ["Accept-Language: a, b;q=0.5"], ["Accept-Language: b;q=0.50,A"], True),
        ("Accept-Language", ["Accept-Language: a, b;q=0.5"], ["Accept-Language: b, a;q=0"], False),
        ("Accept-Language", ["Accept-Language: en"], [], False),
        ("Accept-Language", ["Accept-Language: x y"], ["Accept-Language: X Y"], True),
    ],
)  # fmt: skip
def test_requests_are_compared_by_meaning(
    headers: Make, vary: str, stored: list[str], asked: list[str], fit: bool
) -> None:
    assert same(headers, vary, stored, asked) is fit


@pytest.mark.parametrize(
    ("language", "asked", "fit"),
    [
        ("de", "fr;q=0.5, de", True),
        ("de", "fr, de", False),
        ("de", "fr, de;q=0.9", False),
        ("de", "de;q=0", False),
        ("de", "*", False),
        ("de, en", "de", False),
        ("de-AT", "de", False),
    ],
)
def test_a_language_liked_best_of_all_is_recognised(
    headers: Make, language: str, asked: str, fit: bool
) -> None:
    stored, presented = ["Accept-Language: en, de"], [f"Accept-Language: {asked}"]
    told = f"Content-Language: {language}"
    assert same(headers, "Accept-Language", stored, presented, told) is fit
    assert not same(headers, "Accept-Language, Foo", stored, [*presented, "Foo: 1"], told)


def test_a_coding_that_was_not_asked_for_or_is_unknown_fits_only_the_same_words(
    headers: Make,
) -> None:
    vary, gzip = "Accept-Encoding", "Content-Encoding: gzip"
    assert same(headers, vary, ["Accept-Encoding: gzip"], ["Accept-Encoding: GZIP, x"], gzip)
    assert not same(headers, vary, [], ["Accept-Encoding: identity"], gzip)
    assert same(headers, vary, [], [], gzip)
    lzma = ["Accept-Encoding: lzma"]
    assert not same(headers, vary, lzma, [], "Content-Encoding: lzma")
    assert same(headers, vary, lzma, lzma, "Content-Encoding: lzma")


def test_the_most_recent_of_those_that_fit_is_chosen(headers: Make) -> None:
    def varies(value: str) -> Variant:
        return Variant(((b"foo", value.encode()),))

    variants = [varies("1"), varies("2"), varies("1")]
    assert choose_variant(variants, [1, 9, 2], headers("Foo: 1")) == 2
    assert choose_variant(variants, [3, 9, 2], headers("Foo: 1")) == 0
    assert choose_variant(variants, [5, 9, 5], headers("Foo: 1")) == 2
    assert choose_variant(variants, [1, 2, 3], headers("Foo: 3")) is None
    assert choose_variant([], [], headers()) is None


def test_a_default_answer_that_forgot_its_vary_does_not_answer_for_all(headers: Make) -> None:
    default, variant = Variant(), Variant(((b"foo", b"1"),))
    assert choose_variant([default, variant], [1, 2], headers("Foo: 2")) is None
    assert choose_variant([default, variant], [2, 1], headers("Foo: 2")) == 0


def test_the_oldest_variants_go_first() -> None:
    assert surplus_variants([5, 3, 9, 3], 2) == [1, 3]
    assert surplus_variants([5, 3], 2) == []


VALUES = st.lists(st.sampled_from([b"1", b"2", b"1,2", b" 1 , 2", b"", b"A", b"a"]), max_size=2)
CODING_VALUES = st.lists(
    st.sampled_from([b"gzip", b"br", b"gzip;q=0", b"*", b"identity;q=0", b"br;q=0.5", b"x"]),
    max_size=2,
)


def requests(foo: list[bytes], codings: list[bytes]) -> Headers:
    return Headers([(b"Foo", v) for v in foo] + [(b"Accept-Encoding", v) for v in codings])


@pytest.mark.slow
@given(VALUES, CODING_VALUES, VALUES, CODING_VALUES, st.sampled_from([b"", b"gzip", b"br", b"x"]))
@settings(max_examples=200)
def test_no_response_is_given_to_a_request_that_its_vary_excludes(
    foo: list[bytes],
    codings: list[bytes],
    other_foo: list[bytes],
    other_codings: list[bytes],
    used: bytes,
) -> None:
    answered = [(b"Vary", b"Foo, Accept-Encoding")]
    answered += [(b"Content-Encoding", used)] if used else []
    asked, presented = requests(foo, codings), requests(other_foo, other_codings)
    variant = describe_variant(asked, Headers(answered), CODINGS)
    assert fits(variant, asked)
    if not fits(variant, presented):
        return
    assert bool(foo) == bool(other_foo)
    bare = [b",".join(f).replace(b" ", b"").strip(b",") for f in (foo, other_foo)]
    assert bare[0].replace(b",,", b",") == bare[1].replace(b",,", b",")
    # Whoever gets it can decode it, or sent the very words of the one who got it first.
    weight = acceptable(presented.get(b"accept-encoding")).weight(used)
    assert weight or codings == other_codings or not used
