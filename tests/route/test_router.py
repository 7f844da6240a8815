"""Which site answers for a host."""

from __future__ import annotations

from edgebox.route.router import Router

ROUTER = Router(
    [
        (("example.com", "www.example.com"), "exact"),
        (("*.example.com",), "wild"),
        (("*.deep.example.com",), "deeper"),
        (("*",), "rest"),
        (("example.com", "*"), "late"),
    ]
)


def test_exact_names_win_then_the_longest_suffix_then_the_rest() -> None:
    assert ROUTER.pick(b"example.com") == "exact"
    assert ROUTER.pick(b"www.example.com") == "exact"
    assert ROUTER.pick(b"a.example.com") == "wild"
    assert ROUTER.pick(b"a.b.example.com") == "wild"
    assert ROUTER.pick(b"x.deep.example.com") == "deeper"
    assert ROUTER.pick(b"example.org") == "rest"
    assert ROUTER.pick(b"") == "rest"


def test_a_suffix_is_whole_labels_and_at_least_one_more() -> None:
    assert ROUTER.pick(b"badexample.com") == "rest"
    assert Router([(("*.example.com",), 1)]).pick(b"example.com") is None


def test_without_a_rest_nobody_answers() -> None:
    assert Router([(("a",), 1)]).pick(b"b") is None


def test_names_are_compared_as_the_wire_has_them() -> None:
    assert Router([(("Bücher.example",), 1)]).pick(b"xn--bcher-kva.example") == 1
