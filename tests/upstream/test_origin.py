"""Where a server is, from its URL."""

from __future__ import annotations

import pytest

from edgebox.upstream.origin import Origin, parse_origin


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8000", Origin("127.0.0.1", 8000)),
        ("http://app", Origin("app", 80)),
        ("http://app/", Origin("app", 80)),
        ("http://app:", Origin("app", 80)),  # RFC 3986 §3.2.3
        ("http://App.Example:81", Origin("app.example", 81)),
        ("https://app", Origin("app", 443, tls=True)),
        ("https://app:8443", Origin("app", 8443, tls=True)),
        ("http://[::1]:8000", Origin("::1", 8000)),
        ("unix:/run/app.sock", Origin(path="/run/app.sock")),
    ],
)
def test_a_url_names_host_and_port_or_a_path(url: str, origin: Origin) -> None:
    assert parse_origin(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "", "127.0.0.1:8000", "ftp://app", "http://", "http:///x", "http://app:0",
        "http://app:65536", "http://app:8000/api", "http://app?x", "http://u:p@app", "http://a b",
        "unix:app.sock", "unix:", "unix:/" + "x" * 107, "unix:/a\0b", "http://app\n",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_words(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|must|has) "):
        parse_origin(url)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://app:80", "app"),
        ("http://app:8000", "app:8000"),
        ("https://app", "app"),
        ("https://app:80", "app:80"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("unix:/run/app.sock", "localhost"),
    ],
)
def test_the_authority_leaves_out_the_port_of_the_scheme(url: str, authority: str) -> None:
    assert parse_origin(url).authority == authority


@pytest.mark.parametrize("url", ["http://app:8000", "https://app", "http://[::1]", "unix:/a"])
def test_an_origin_reads_as_its_url(url: str) -> None:
    assert str(parse_origin(url)) == url
    assert parse_origin(str(parse_origin(url))) == parse_origin(url)
