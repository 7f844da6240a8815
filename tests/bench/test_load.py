from __future__ import annotations

import pytest

from edgebox.bench.load import (
    BadLoad,
    basic_credentials,
    parse_field,
    parse_target,
    render_request,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://example.com", "example.com", 80, "example.com", "/"),
        ("example.com:81/a?b=c", "example.com", 81, "example.com:81", "/a?b=c"),
        ("http://[::1]:8080/x", "::1", 8080, "[::1]:8080", "/x"),
        ("http://u:p@h/", "h", 80, "h", "/"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, authority: str, path: str) -> None:
    found = parse_target(url)
    assert (found.host, found.port, found.authority, found.path) == (host, port, authority, path)


@pytest.mark.parametrize(
    "url", ["https://a/", "ftp://a/", "http:///x", "http://a:99999/", "http://a/b c", "http://é/"]
)
def test_a_url_that_cannot_be_asked_is_refused(url: str) -> None:
    with pytest.raises(BadLoad):
        parse_target(url)


def test_a_request_closes_unless_connections_are_kept() -> None:
    target = parse_target("http://a:81/x")
    once = render_request(target, "GET", [], b"", keep_alive=False)
    assert once.startswith(b"GET /x HTTP/1.1\r\nHost: a:81\r\n")
    assert b"\r\nConnection: close\r\n" in once
    assert once.endswith(b"\r\n\r\n")
    kept = render_request(target, "GET", [], b"", keep_alive=True)
    assert b"Connection" not in kept


def test_given_fields_replace_ours() -> None:
    octets = render_request(parse_target("a"), "GET", [("host", "b"), ("X-A", "1")], b"", True)
    assert octets.count(b"ost: ") == 1
    assert b"\r\nhost: b\r\nX-A: 1\r\n" in octets


def test_a_body_is_announced() -> None:
    octets = render_request(parse_target("a"), "PUT", [], b"xyz", True)
    assert b"\r\nContent-Length: 3\r\n" in octets
    assert octets.endswith(b"\r\n\r\nxyz")
    assert b"Content-Length: 0\r\n" in render_request(parse_target("a"), "POST", [], b"", True)


@pytest.mark.parametrize("line", ["no colon", ": x", "a b: c"])
def test_a_field_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(BadLoad):
        parse_field(line)


def test_no_field_can_begin_another_line() -> None:
    with pytest.raises(BadLoad):
        render_request(parse_target("a"), "GET", [("X", "a\r\nY: b")], b"", True)


def test_credentials_are_as_in_the_rfc() -> None:
    assert basic_credentials("Aladdin:open sesame") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    with pytest.raises(BadLoad):
        basic_credentials("nobody")
