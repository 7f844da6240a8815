from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebox.config.checks import check, check_hosts, wrong_address, wrong_host
from edgebox.config.schema import Compression, Config, Files, Log, Record, Server, Site


def told(*tables: Record) -> dict[str, str]:
    """What is wrong with these tables, the rest at its defaults."""
    config = Config()
    for table in tables:
        name = type(table).__name__.lower()
        config = replace(config, **{name: (table,) if isinstance(table, Site) else table})
    return {str(path[-1]): text for path, text in check(config)}


def test_the_defaults_are_right() -> None:
    assert told() == {}
    assert not list(check_hosts(Config().site))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8080", "0.0.0.0:80", "*:80", ":80", "localhost:0", "[::1]:443", "[::]:80",
     "unix:/run/edgebox/http.sock"],
)  # fmt: skip
def test_an_address_that_can_be_listened_on_passes(address: str) -> None:
    assert wrong_address(address) is None


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("8080", "no port"),
        ("127.0.0.1", "no port"),
        ("::", "no port"),
        ("[::1]", "no port"),
        ("127.0.0.1:", "no valid port"),
        ("127.0.0.1:http", "no valid port"),
        ("127.0.0.1:70000", "no valid port"),
        ("127.0.0.1:٣", "no valid port"),
        ("::1:80", "brackets"),
        ("[127.0.0.1]:80", "brackets"),
        ("www.example.com:80", "must be an IP address"),
        ("http://127.0.0.1:80", "must be an IP address"),
        ("127.0.0.256:80", "must be an IP address"),
        ("unix:", "absolute path"),
        ("unix:run/x.sock", "absolute path"),
        ("unix:@abstract", "absolute path"),
        ("unix:/" + 107 * "x", "too long"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_told_why(address: str, problem: str) -> None:
    assert problem in (wrong_address(address) or "")


def test_addresses_are_there_and_differ() -> None:
    assert "at least one" in told(Server(listen=()))["listen"]
    assert "twice" in told(Server(listen=("*:80", "*:80")))["1"]
    assert "no port" in told(Server(listen=("*:80", "*")))["1"]


@pytest.mark.parametrize("name", ["edge\r\nX: y", " edge", "edge\x7f", "käse", "edge "])
def test_the_server_name_cannot_break_a_head(name: str) -> None:
    assert "visible ASCII" in told(Server(name=name))["name"]


def test_the_server_name_may_be_empty() -> None:
    assert told(Server(name="")) == {}


@pytest.mark.parametrize(
    "host",
    ["*", "example.com", "*.example.com", "localhost", "10.0.0.1", "[::1]", "a_b.example",
     "xn--bcher-kva.example", "1.example"],
)  # fmt: skip
def test_a_host_pattern_passes(host: str) -> None:
    assert wrong_host(host) is None


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("", "no host name"),
        ("https://example.com", "without scheme or path"),
        ("example.com/a", "without scheme or path"),
        ("example.com:80", "without port"),
        ("[::1]:80", "no IPv6 address"),
        ("[::1", "without port"),
        ("[::x]", "no IPv6 address"),
        ("bücher.example", "xn--"),
        ("www.*.com", "whole first label"),
        ("*x.com", "whole first label"),
        ("**", "whole first label"),
        ("*.", "no host name"),
        ("example.com.", "no host name"),
        ("-a.example", "no host name"),
        ("a b", "no host name"),
        ("a\n", "no host name"),
        (64 * "a" + ".example", "no host name"),
        (".".join(130 * ["ab"]), "no host name"),
    ],
)
def test_what_is_no_host_pattern_is_told_why(host: str, problem: str) -> None:
    assert problem in (wrong_host(host) or "")


def test_a_site_without_hosts_is_told_of() -> None:
    assert "nobody would reach" in told(Site(hosts=()))["hosts"]


def test_each_host_has_one_site() -> None:
    sites = (Site(hosts=("a.example", "*")), Site(hosts=("b.example", "a.example", "b.example")))
    assert list(check_hosts(sites)) == [
        (("site", 1, "hosts", 1), '"a.example" is in site[0] already'),
        (("site", 1, "hosts", 2), '"b.example" is in this already'),
    ]


def test_exactly_one_site_takes_whatever_host_is_left() -> None:
    assert [path for path, _ in check_hosts((Site(hosts=("a.example",)),))] == [("site",)]
    assert [path for path, _ in check_hosts((Site(), Site()))] == [("site", 1, "hosts", 0)]
    assert [text for _, text in check_hosts(())] == ["there is none: add a [[site]]"]


def test_a_root_must_be_a_directory(tmp_path: Path) -> None:
    assert told(Site(root=str(tmp_path))) == {}
    assert told(Site(root=f"{tmp_path}/no"))["root"] == f"no such directory: {tmp_path}/no"
    (tmp_path / "file").touch()
    assert told(Site(root=f"{tmp_path}/file"))["root"] == f"is not a directory: {tmp_path}/file"
    assert "cannot use" in told(Site(root=f"{tmp_path}/file/x"))["root"]
    assert "null byte" in told(Site(root="/a\0b"))["root"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert told(Site(root=f"{tmp_path}/link")) == {}


def test_a_log_needs_a_directory_to_lie_in(tmp_path: Path) -> None:
    assert told(Log(access=f"{tmp_path}/access.log", error="off")) == {}
    assert told(Log(access=f"{tmp_path}/no/a.log"))["access"].startswith("no such directory")
    assert "is empty" in told(Log(error=""))["error"]


@pytest.mark.parametrize("name", ["", "a/b", "/index.html", ".", "..", "a\0"])
def test_an_index_is_a_file_name(name: str) -> None:
    assert "no file name" in told(Site(index=(name,)))["0"]


@pytest.mark.parametrize("status", ["200", "399", "600", "40", "4044", "x", "٤٠٤"])
def test_only_errors_have_error_pages(status: str) -> None:
    assert told(Site(error_pages={status: "/x"})) == {status: "is no error status, 400 to 599"}


@pytest.mark.parametrize("page", ["", "404.html", "http://a/404.html", "/a\r\nb"])
def test_an_error_page_is_a_path_of_the_site(page: str) -> None:
    assert "path from the root" in told(Site(error_pages={"404": page}))["404"]


def test_error_pages_headers_and_types_as_they_should_be_pass() -> None:
    site = Site(
        error_pages={"400": "/a", "599": "/b c.html"},
        headers={"X-Frame-Options": "DENY", "Cache-Control": "max-age=5, public", "X": ""},
        types={".x": "text/plain", ".tar.y": "application/x-y; charset=utf-8"},
    )
    assert told(site) == {}


@pytest.mark.parametrize("name", ["", "X A", "X:", "Ä", "a\r\n"])
def test_a_field_name_is_a_token(name: str) -> None:
    assert "no field name" in told(Site(headers={name: "x"}))[name]


@pytest.mark.parametrize("value", ["a\r\nb", "a\0", " a", "a\t", "ä", "\x7f"])
def test_a_field_value_has_no_control_characters(value: str) -> None:
    assert "visible ASCII" in told(Site(headers={"X": value}))["X"]


@pytest.mark.parametrize("name", ["Content-Length", "TRANSFER-ENCODING", "etag", "Date"])
def test_a_field_that_belongs_to_one_answer_is_refused(name: str) -> None:
    assert "sets this field itself" in told(Site(headers={name: "5"}))[name]


def test_a_field_in_two_spellings_is_there_twice() -> None:
    assert told(Site(headers={"X-A": "1", "x-a": "2"})).keys() == {"x-a"}


@pytest.mark.parametrize("extension", ["", ".", "html", "./x"])
def test_a_type_is_for_an_extension(extension: str) -> None:
    assert "start with a dot" in told(Site(types={extension: "text/plain"}))[extension]


@pytest.mark.parametrize("media_type", ["", "text", "text/", "text/a b", "text/x; a=\r\n"])
def test_a_type_is_a_media_type(media_type: str) -> None:
    assert "no media type" in told(Site(types={".x": media_type}))[".x"]


def test_compression_makes_sense() -> None:
    assert "no media type" in told(Compression(types=("text",)))["0"]
    assert "no media type" in told(Compression(types=("text/html; a=b",)))["0"]
    assert "twice" in told(Compression(codings=("br", "br")))["codings"]
    assert "nothing is left" in told(Compression(min_size=2, max_size=1))["min_size"]
    assert "no path" in told(Compression(dir=""))["dir"]


def test_a_part_is_no_more_than_the_whole() -> None:
    assert "are a part" in told(Files(entries=16, negative_entries=17))["negative_entries"]
