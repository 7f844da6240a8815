"""What an app server is told: nothing of one hop, nothing that strangers make up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.handlers.forward import (
    HOP_BY_HOP,
    PROVENANCE,
    ForwardRules,
    contains,
    ends_here,
    forwarded,
    is_looping,
    outgoing_fields,
    parse_networks,
)
from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import Target

RULES = ForwardRules(b"edgebox", parse_networks(("10.0.0.0/8",)))
STRANGER, TRUSTED = b"192.0.2.7", b"10.1.2.3"


def ask(
    *lines: str, method: bytes = b"GET", host: str = "example.com:81", minor: int = 1
) -> Request:
    pairs = [line.partition(":") for line in (f"Host: {host}", *lines)]
    headers = Headers((name.encode(), value.strip().encode()) for name, _, value in pairs)
    return Request(method, Target(b"/", b"/", b"/"), b"example.com", headers, minor)


def send(request: Request, peer: bytes = STRANGER, rules: ForwardRules = RULES) -> Headers:
    """The fields that go out."""
    seen = forwarded(request, peer, rules)
    return Headers(outgoing_fields(seen.headers.fields, seen, rules))


def test_the_app_learns_who_asked_for_what_and_by_which_way() -> None:
    out = send(ask("Accept: x"))
    assert out.fields == (
        (b"Host", b"example.com:81"),
        (b"Accept", b"x"),
        (b"X-Forwarded-For", b"192.0.2.7"),
        (b"Forwarded", b'for=192.0.2.7;host="example.com:81";proto=http'),
        (b"X-Forwarded-Proto", b"http"),
        (b"X-Forwarded-Host", b"example.com:81"),
        (b"Via", b"1.1 edgebox"),
        (b"CDN-Loop", b"edgebox"),
    )


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_fields_of_one_hop_end_here(name: bytes) -> None:
    assert name not in send(ask(f"{name.decode()}: x"))


def test_fields_that_connection_names_end_here_and_ours_do_not() -> None:
    out = send(
        ask("Connection: X-Auth, x-forwarded-for, VIA, close", "X-Auth: secret", "X-Other: y")
    )
    assert b"x-auth" not in out
    assert out.all(b"x-other") == [b"y"]
    assert out.all(b"x-forwarded-for") == [STRANGER]
    assert out.all(b"via") == [b"1.1 edgebox"]


@pytest.mark.parametrize("name", sorted(PROVENANCE))
def test_a_stranger_cannot_say_where_it_comes_from(name: bytes) -> None:
    """FAULTS 69: what no key covers must not change the answer."""
    out = send(ask(f"{name.decode()}: evil"))
    assert b"evil" not in b" ".join(out.all(name))


def test_a_trusted_proxy_is_believed_and_our_part_added() -> None:
    out = send(
        ask("X-Forwarded-For: 192.0.2.9", "Forwarded: for=192.0.2.9", "X-Forwarded-Proto: https",
            "X-Forwarded-Host: public.example"), TRUSTED,
    )  # fmt: skip
    assert out.all(b"x-forwarded-for") == [b"192.0.2.9, 10.1.2.3"]
    assert out.all(b"forwarded") == [
        b'for=192.0.2.9, for=10.1.2.3;host="example.com:81";proto=http'
    ]
    assert out.all(b"x-forwarded-proto") == [b"https"]
    assert out.all(b"x-forwarded-host") == [b"public.example"]


@pytest.mark.parametrize(
    ("peer", "node"),
    [(b"2001:db8::1", b'"[2001:db8::1]"'), (b"unix:", b"unknown"), (b"192.0.2.1", b"192.0.2.1")],
)
def test_addresses_are_written_as_forwarded_wants_them(peer: bytes, node: bytes) -> None:
    assert (send(ask(), peer).get(b"forwarded") or b"").startswith(b"for=" + node + b";")


def test_via_goes_on_with_the_version_that_we_got() -> None:
    out = send(ask("Via: 1.0 front", "Via: 1.1 middle", minor=0))
    assert out.all(b"via") == [b"1.0 front, 1.1 middle, 1.0 edgebox"]


def test_host_can_be_that_of_the_upstream() -> None:
    rules = ForwardRules(b"edgebox", host=b"app.internal:8000")
    out = send(ask(), rules=rules)
    assert out.all(b"host") == [b"app.internal:8000"]
    assert out.all(b"x-forwarded-host") == [b"example.com:81"]


def test_the_host_of_an_absolute_target_goes_before_the_field() -> None:
    target = Target(b"http://real.example/", b"/", b"/", None, b"real.example")
    request = Request(b"GET", target, b"real.example", ask().headers)
    assert send(request).all(b"host") == [b"real.example"]


@pytest.mark.parametrize(
    ("via", "looping"),
    [
        ("1.1 edgebox", True),
        ("1.0 a, HTTP/1.1 edgebox (comment)", True),
        ("1.1 edgebox2", False),
        ("edgebox", False),
        ("1.1 a (edgebox)", False),
    ],
)
def test_what_came_through_here_is_known_again(via: str, looping: bool) -> None:
    assert is_looping(ask(f"Via: {via}"), b"edgebox") is looping


@pytest.mark.parametrize(
    ("told", "sent"), [("0", "0"), ("1", "0"), ("10", "9"), ("x", "x"), ("9" * 30, "9" * 30)]
)
def test_max_forwards_counts_down_for_options(told: str, sent: str) -> None:
    request = ask(f"Max-Forwards: {told}", method=b"OPTIONS")
    assert ends_here(request) is (told == "0")
    assert send(request).all(b"max-forwards") == [sent.encode()]
    assert send(ask(f"Max-Forwards: {told}")).all(b"max-forwards") == [told.encode()]


@pytest.mark.parametrize(
    ("peer", "inside"),
    [
        (b"127.0.0.1", True),
        (b"::ffff:127.0.0.1", True),
        (b"::1", True),
        (b"unix:", True),
        (b"fe80::1%eth0", False),
        (b"192.0.2.1", False),
        (b"", False),
        (b"no address", False),
    ],
)
def test_networks(peer: bytes, inside: bool) -> None:
    assert contains(parse_networks(("127.0.0.0/8", "::1/128")), peer) is inside


@pytest.mark.parametrize(
    ("loop", "looping"),
    [
        ("edgebox", True),
        ("a, edgebox;v=1 ;x, b", True),
        ("edgebox2, a; by=edgebox", False),
        ("", False),
    ],
)
def test_loops_are_known_by_cdn_loop_too(loop: str, looping: bool) -> None:
    assert is_looping(ask(f"CDN-Loop: {loop}"), b"edgebox") is looping


def test_nobody_has_the_traces_of_a_loop_taken_off() -> None:
    out = send(
        ask("Connection: Via, CDN-Loop", "Via: 1.1 one", "CDN-Loop: one; v=1", "CDN-Loop: two")
    )
    assert out.all(b"via") == [b"1.1 one, 1.1 edgebox"]
    assert out.all(b"cdn-loop") == [b"one; v=1, two, edgebox"]


def test_a_unix_socket_is_no_stranger_only_where_this_machine_is_none() -> None:
    assert not contains(parse_networks(("192.0.2.0/24",)), b"unix:")


names = st.sampled_from([*PROVENANCE, *HOP_BY_HOP, b"x-a", b"cookie", b"via", b"cdn-loop", b"host"])


@given(st.lists(st.tuples(names, st.sampled_from([b"1", b"x-a", b"close, cookie", b"a;b"]))))
def test_nothing_of_one_hop_ever_goes_out(fields: list[tuple[bytes, bytes]]) -> None:
    request = Request(b"GET", Target(b"/", b"/", b"/"), b"h", Headers(fields))
    out = send(request)
    nominated = set(request.headers.tokens(b"connection"))
    ours = {b"host", b"via", b"cdn-loop", b"x-forwarded-for", b"forwarded", b"x-forwarded-proto",
            b"x-forwarded-host"}  # fmt: skip
    for name, _ in out:
        assert name.lower() not in HOP_BY_HOP
        assert name.lower() not in nominated or name.lower() in ours
    assert all(len(out.all(name)) == 1 for name in ours)
