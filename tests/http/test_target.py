"""The target and Host: one reading of who is asked and for which path, or a fault."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgebox.http.faults import Fault
from edgebox.http.headers import Headers
from edgebox.http.target import Target, effective_host, normalise_path, parse_host, parse_target


def parsed(raw: bytes, method: bytes = b"GET") -> Target:
    target = parse_target(method, raw)
    assert isinstance(target, Target), target
    return target


# --- forms ----------------------------------------------------------------------------


def test_origin_form_is_split_at_the_first_question_mark() -> None:
    assert parsed(b"/a/b?c=d?e") == Target(b"/a/b?c=d?e", b"/a/b", b"/a/b", b"c=d?e", None)


def test_an_empty_query_is_not_the_same_as_none() -> None:
    assert parsed(b"/a?").query == b""
    assert parsed(b"/a").query is None


def test_absolute_form_gives_authority_in_normal_form() -> None:
    raw = b"HTTP://Example.COM.:8080/a%20b?q"
    assert parsed(raw) == Target(raw, b"/a%20b", b"/a b", b"q", b"example.com:8080")


@pytest.mark.parametrize(
    ("raw", "raw_path", "query"),
    [
        (b"https://a", b"/", None),
        (b"http://a?q", b"/", b"q"),
        (b"http://a:/x", b"/x", None),
    ],
)
def test_absolute_form_without_a_path_asks_for_the_root(
    raw: bytes, raw_path: bytes, query: bytes | None
) -> None:
    target = parsed(raw)
    assert (target.raw_path, target.query, target.authority) == (raw_path, query, b"a")


def test_asterisk_is_for_options_alone() -> None:
    assert parsed(b"*", b"OPTIONS") == Target(b"*", b"*", b"*")
    assert parse_target(b"GET", b"*") is Fault.TARGET


@pytest.mark.parametrize("raw", [b"example.com:443", b"/", b"http://a/", b"*", b"\xff"])
def test_connect_is_refused_whatever_its_target(raw: bytes) -> None:
    assert parse_target(b"CONNECT", raw) is Fault.METHOD_CONNECT


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"foo",
        b"index.html",
        b"?q",
        b"**",
        b"example.com:443",
        b"ftp://a/",
        b"http:/a",
        b"http:///a",
        b"http://",
        b"http://user@a/",
        b"http://user:secret@a/",
        b"http://a:70000/",
        b"http://a b/",
        b"http://[::1/",
        b"mailto:a@b",
        b"/a#b",
        b"/#",
        b"/a b",
        b"/\xc3\xa9",
        b"/a\x7f",
        b"/a\r\nX: y",
        b"/a\x00",
        b"/%",
        b"/%4",
        b"/%zz",
        b"/%%41",
        b"/%u0041",
        b"http://a/%g0",
    ],
)
def test_malformed_targets_are_refused(raw: bytes) -> None:
    assert parse_target(b"GET", raw) is Fault.TARGET


def test_a_query_is_not_decoded_nor_judged() -> None:
    assert parsed(b"/?%zz&..%2f%00").query == b"%zz&..%2f%00"


# --- paths (FAULTS 23, 24, 25) --------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/", b"/"),
        (b"/a/b/", b"/a/b/"),
        (b"/a//b", b"/a/b"),
        (b"//etc/passwd", b"/etc/passwd"),
        (b"//", b"/"),
        (b"/a//", b"/a/"),
        (b"/./a", b"/a"),
        (b"/a/.", b"/a/"),
        (b"/a/./b", b"/a/b"),
        (b"/a/..", b"/"),
        (b"/a/b/..", b"/a/"),
        (b"/a/b/../", b"/a/"),
        (b"/a/b/../c", b"/a/c"),
        (b"/a//../b", b"/b"),
        (b"/a/%2e%2E/b", b"/b"),
        (b"/%2e/a", b"/a"),
        (b"/...", b"/..."),
        (b"/..a/b..", b"/..a/b.."),
        (b"/.hidden", b"/.hidden"),
        (b"/%41%6a", b"/Aj"),
        (b"/%c3%a9", b"/\xc3\xa9"),
        (b"/%80%85%a0", b"/\x80\x85\xa0"),
        (b"/a%20b%3fc%23d", b"/a b?c#d"),
        (b"/%25", b"/%"),
        (b"/%252e%252e/a", b"/%2e%2e/a"),
        (b"/%252f", b"/%2f"),
    ],
)
def test_paths_are_decoded_once_and_normalised(raw: bytes, path: bytes) -> None:
    target = parsed(raw)
    assert (target.path, target.raw_path) == (path, raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"/..",
        b"/../",
        b"/../etc/passwd",
        b"/a/../../etc/passwd",
        b"/./..",
        b"//..",
        b"/a//../..",
        b"/%2e%2e/etc/passwd",
        b"/%2e./etc/passwd",
        b"/.%2E/etc/passwd",
        b"/..%2fetc/passwd",
        b"/a%2f..%2fb",
        b"/a%2f%2e%2e/b",
        b"/a%2fb/../c",
        b"/a/.%5cb",
        b"/..\\etc",
        b"/a\\b",
        b"/..%5cetc",
        b"/a%00",
        b"/a%00.png",
        b"/%0d%0aSet-Cookie:x",
        b"/a%0a",
        b"/a%09b",
        b"/a%1f",
        b"/a%7f",
        b"http://a/../b",
    ],
)
def test_paths_that_two_readers_could_take_apart_differently_are_refused(raw: bytes) -> None:
    assert parse_target(b"GET", raw) is Fault.PATH


@pytest.mark.parametrize(
    ("raw", "path", "separated"),
    [
        (b"/@scope%2fname", b"/@scope%2fname", b"/@scope/name"),
        (b"/a%2Fb%20c", b"/a%2Fb c", b"/a/b c"),
        (b"/a%5Cb", b"/a%5Cb", b"/a/b"),
        (b"/a/%2F", b"/a/%2F", b"/a/"),
        (b"/%2f%2fa/", b"/%2f%2fa/", b"/a/"),
    ],
)
def test_an_encoded_slash_is_told_in_both_readings(
    raw: bytes, path: bytes, separated: bytes
) -> None:
    target = parsed(raw)
    assert (target.raw_path, target.path, target.separated) == (raw, path, separated)
    assert normalise_path(raw) is Fault.PATH  # what knows but one reading refuses


PIECES = st.sampled_from(
    [b"/", b"//", b".", b"..", b"%2e", b"%2f", b"%5c", b"%00", b"%25", b"%c3%a9", b"a", b"b", b"%"]
)


@given(st.lists(PIECES, max_size=12).map(lambda p: b"/" + b"".join(p)))
def test_a_path_that_passes_stays_below_the_root_and_is_in_normal_form(raw: bytes) -> None:
    path = normalise_path(raw)
    if isinstance(path, Fault):
        return
    assert path.startswith(b"/")
    inner = path[1:].removesuffix(b"/")
    assert path == b"/" or all(s not in (b"", b".", b"..") for s in inner.split(b"/"))
    assert re.search(rb"[\x00-\x1f\x7f\\]", path) is None
    encoded = re.sub(rb"[^/]", lambda m: b"%%%02x" % m[0][0], path)
    assert normalise_path(encoded) == path


@given(st.lists(PIECES, max_size=12).map(lambda p: b"/" + b"".join(p)))
def test_no_reading_of_a_target_leaves_the_root(raw: bytes) -> None:
    target = parse_target(b"GET", raw)
    if isinstance(target, Fault):
        return
    for reading in (target.path, target.separated or b"/"):
        assert reading.startswith(b"/")
        assert not {b".", b".."} & set(reading.split(b"/"))
        assert re.search(rb"[\x00-\x1f\x7f\\]", reading) is None
    assert (target.separated is not None) == bool(re.search(rb"(?i)%2f|%5c", raw))


@settings(max_examples=200)
@given(
    st.sampled_from([b"GET", b"OPTIONS", b"CONNECT", b""]),
    st.binary(max_size=40)
    | st.binary(max_size=40).map(lambda tail: b"/" + tail)
    | st.binary(max_size=40).map(lambda tail: b"http://" + tail),
)
def test_any_octets_give_a_target_or_a_fault(method: bytes, raw: bytes) -> None:
    target = parse_target(method, raw)
    if isinstance(target, Target):
        assert target.raw == raw
        assert target.authority is None or not isinstance(parse_host(target.authority), Fault)
    else:
        assert target in (Fault.TARGET, Fault.PATH, Fault.METHOD_CONNECT)


# --- hosts (FAULTS 18, 19) ------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "host"),
    [
        (b"example.com", (b"example.com", None)),
        (b"EXAMPLE.com:8080", (b"example.com", 8080)),
        (b"example.com:", (b"example.com", None)),
        (b"example.com.", (b"example.com", None)),
        (b"example.com.:80", (b"example.com", 80)),
        (b"a:0", (b"a", 0)),
        (b"a:65535", (b"a", 65535)),
        (b"a:00080", (b"a", 80)),
        (b"a_b-c~d", (b"a_b-c~d", None)),
        (b"a%2Db", (b"a%2db", None)),
        (b"127.0.0.1:1", (b"127.0.0.1", 1)),
        (b"[::1]", (b"[::1]", None)),
        (b"[FE80::A]:443", (b"[fe80::a]", 443)),
        (b"[::ffff:1.2.3.4]", (b"[::ffff:1.2.3.4]", None)),
    ],
)
def test_hosts_and_ports_are_read(value: bytes, host: tuple[bytes, int | None]) -> None:
    assert parse_host(value) == host


BAD_HOSTS = [
    b"",
    b":80",
    b".",
    b"a..b",
    b".a",
    b"a..",
    b"a b",
    b"a b/c",
    b"a/b",
    b"a?b",
    b"a#b",
    b"a\\b",
    b"user@a",
    b"a:65536",
    b"a:99999",
    b"a:123456",
    b"a:80:80",
    b"a:+80",
    b"a:-1",
    b"a:0x50",
    b"a:8_0",
    b"a: 80",
    b"a,b c",
    b"a\x00",
    b"a\t",
    b"\xa0a",
    b"a\x85",
    b"\xff",
    b"a%",
    b"a%zz",
    b"[::1",
    b"::1",
    b"[]",
    b"[:]",
    b"[1.2.3.4]",
    b"[::g]",
    b"[::1%25eth0]",
    b"[v1.a]",
    b"[::1]a",
]


@pytest.mark.parametrize("value", BAD_HOSTS)
def test_malformed_hosts_are_refused(value: bytes) -> None:
    assert parse_host(value) is Fault.HOST


@given(st.binary(max_size=20) | st.from_regex(rb"[\[\]:.0-9a-fA-F%@-]{0,20}", fullmatch=True))
@example(b"[::1]:80")
def test_a_host_in_normal_form_reads_as_itself(value: bytes) -> None:
    host = parse_host(value)
    if not isinstance(host, Fault):
        assert parse_host(host[0]) == (host[0], None)
        assert host[0] == host[0].lower()


def host_of(target: bytes, values: list[bytes], minor: int) -> bytes | Fault:
    return effective_host(parsed(target), Headers((b"Host", v) for v in values), minor)


def test_host_field_names_the_host_of_an_origin_form_target() -> None:
    assert host_of(b"/", [b"Example.com:80"], 1) == b"example.com"


def test_the_targets_authority_wins_over_host() -> None:
    assert host_of(b"http://real.example/", [b"other.example"], 1) == b"real.example"
    assert host_of(b"http://real.example:8080/", [], 0) == b"real.example"


def test_http_1_0_may_name_no_host() -> None:
    assert host_of(b"/", [], 0) == b""


@pytest.mark.parametrize("target", [b"/", b"http://a/"])
def test_http_1_1_needs_a_host_even_beside_an_authority(target: bytes) -> None:
    assert host_of(target, [], 1) is Fault.HOST


@pytest.mark.parametrize("minor", [0, 1])
@pytest.mark.parametrize("target", [b"/", b"http://a/"])
@pytest.mark.parametrize("values", [[b"a", b"a"], [b"a", b"b"], [b""], [b"a b/c"], [b"a,b c"]])
def test_two_or_invalid_hosts_are_refused(target: bytes, values: list[bytes], minor: int) -> None:
    assert host_of(target, values, minor) is Fault.HOST
