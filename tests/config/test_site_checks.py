from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Route, Site
from edgebox.config.site_checks import check_hosts, check_upstreams_named, wrong_prefix
from edgebox.http.target import normalise_path

Told = Callable[..., dict[str, str]]


def test_a_site_without_hosts_is_told_of(told: Told) -> None:
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


def test_a_root_must_be_a_directory(told: Told, tmp_path: Path) -> None:
    assert told(Site(root=str(tmp_path))) == {}
    assert told(Site(root=f"{tmp_path}/no"))["root"] == f"no such directory: {tmp_path}/no"
    (tmp_path / "file").touch()
    assert told(Site(root=f"{tmp_path}/file"))["root"] == f"is not a directory: {tmp_path}/file"
    assert "cannot use" in told(Site(root=f"{tmp_path}/file/x"))["root"]
    assert "null byte" in told(Site(root="/a\0b"))["root"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert told(Site(root=f"{tmp_path}/link")) == {}


@pytest.mark.parametrize("name", ["", "a/b", "/index.html", ".", "..", "a\0"])
def test_an_index_is_a_file_name(told: Told, name: str) -> None:
    assert "no file name" in told(Site(index=(name,)))["0"]


def test_a_page_that_nobody_would_ever_see_is_a_mistake(told: Told) -> None:
    for status in ("400", "414", "431", "502", "599"):
        assert told(Site(error_pages={status: "/x"})) == {
            status: "is always told in our own words; a page can stand for"
            " 403, 404, 405, 406, 412, 416, 500, 501, 503"
        }


@pytest.mark.parametrize("status", ["200", "399", "600", "40", "4044", "x", "٤٠٤"])
def test_only_errors_have_error_pages(told: Told, status: str) -> None:
    assert told(Site(error_pages={status: "/x"})) == {status: "is no error status, 400 to 599"}


@pytest.mark.parametrize("page", ["", "404.html", "http://a/404.html", "/a\r\nb"])
def test_an_error_page_is_a_path_of_the_site(told: Told, page: str) -> None:
    assert "path from the root" in told(Site(error_pages={"404": page}))["404"]


def test_error_pages_headers_and_types_as_they_should_be_pass(told: Told) -> None:
    site = Site(
        error_pages={"403": "/a", "503": "/b c.html"},
        headers={"X-Frame-Options": "DENY", "Cache-Control": "max-age=5, public", "X": ""},
        types={".x": "text/plain", ".tar.y": "application/x-y; charset=utf-8"},
    )
    assert told(site) == {}


@pytest.mark.parametrize("name", ["", "X A", "X:", "Ä", "a\r\n"])
def test_a_field_name_is_a_token(told: Told, name: str) -> None:
    assert "no field name" in told(Site(headers={name: "x"}))[name]


@pytest.mark.parametrize("value", ["a\r\nb", "a\0", " a", "a\t", "ä", "\x7f"])
def test_a_field_value_has_no_control_characters(told: Told, value: str) -> None:
    assert "visible ASCII" in told(Site(headers={"X": value}))["X"]


@pytest.mark.parametrize("name", ["Content-Length", "TRANSFER-ENCODING", "etag", "Date"])
def test_a_field_that_belongs_to_one_answer_is_refused(told: Told, name: str) -> None:
    assert "sets this field itself" in told(Site(headers={name: "5"}))[name]


def test_a_field_in_two_spellings_is_there_twice(told: Told) -> None:
    assert told(Site(headers={"X-A": "1", "x-a": "2"})).keys() == {"x-a"}


@pytest.mark.parametrize("extension", ["", ".", "html", "./x"])
def test_a_type_is_for_an_extension(told: Told, extension: str) -> None:
    assert "start with a dot" in told(Site(types={extension: "text/plain"}))[extension]


@pytest.mark.parametrize("media_type", ["", "text", "text/", "text/a b", "text/x; a=\r\n"])
def test_a_type_is_a_media_type(told: Told, media_type: str) -> None:
    assert "no media type" in told(Site(types={".x": media_type}))[".x"]


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/", "/a b/ä", "/.well-known/x", "/100%", "/a..b"]
)
def test_a_prefix_passes(path: str) -> None:
    assert wrong_prefix(path) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "must start"),
        ("api/", "must start"),
        ("*.php", "must start"),
        ("http://x/", "must start"),
        ("/api/*", "leave the"),
        ("/a?b", "without a query"),
        ("/a%20b", "decoded"),
        ("//a", "no request"),
        ("/a/../b", "no request"),
        ("/a/.", "no request"),
        ("/a\\b", "no request"),
        ("/a\n", "no request"),
    ],
)
def test_what_is_no_prefix_is_told_why(path: str, problem: str) -> None:
    assert problem in (wrong_prefix(path) or "")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map("/{}".format))
def test_a_prefix_that_passes_is_that_of_some_request(path: str) -> None:
    if wrong_prefix(path) is None:
        assert normalise_path(quote(path).encode()) == path.encode()


def test_each_prefix_has_one_route_in_a_site(told: Told) -> None:
    def routes(*paths: str) -> Site:
        return Site(route=tuple(Route(path=path, upstream="app") for path in paths))

    assert told(routes("/", "/app", "/app/")) == {}
    assert "already" in told(routes("/app", "/", "/app"))["path"]


def test_times_of_freshness_are_whole_seconds(told: Told) -> None:
    fine = Route(default_freshness=0.0, stale_while_revalidate=60.0, stale_if_error=5.0)
    assert told(Site(route=(fine,))) == {}
    wrong = Route(default_freshness=0.5, stale_while_revalidate=1.5, stale_if_error=0.1)
    assert told(Site(route=(wrong,))).keys() == {
        "default_freshness", "stale_while_revalidate", "stale_if_error",
    }  # fmt: skip


def test_patterns_of_routes_are_patterns(told: Told) -> None:
    assert told(Site(route=(Route(bypass_cookies=("sid", "a b")),))).keys() == {"1"}
    assert told(Site(route=(Route(drop_query=("a=b", "utm_*")),))).keys() == {"0"}


def test_files_are_named_by_upstreams_in_a_directory(told: Told, tmp_path: Path) -> None:
    assert told(Site(route=(Route(accel=str(tmp_path)),))) == {}
    assert "no such directory" in told(Site(route=(Route(accel="/no/such"),)))["accel"]


def test_paths_left_to_files_need_a_root(told: Told, tmp_path: Path) -> None:
    proxied, files = Route(upstream="app"), Route(path="/static/")
    assert told(Site(route=(proxied,))) == {}
    assert told(Site(route=(proxied, files), root=str(tmp_path))) == {}
    assert "no root" in told(Site(route=(proxied, files)))["upstream"]
    assert "no root" in told(Site(route=(proxied,), error_pages={"404": "/x"}))["error_pages"]
    # The welcome site has what is not proxied.
    assert told(Site(route=(Route(path="/api/", upstream="app"), files))) == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", None),
        ("app", None),
        ("http://127.0.0.1:8000", None),
        ("https://app.example", None),
        ("unix:/run/app.sock", None),
        ("ap", 'there is no [upstream.ap]; did you mean "app"?'),
        ("zzz", "there is no [upstream.zzz]"),
        ("two words", 'there is no [upstream."two words"]'),
        ("127.0.0.1:8000", '"127.0.0.1:8000" is no address: write "http://HOST:PORT"'),
        ("app.example", '"app.example" is no address'),
        ("http://app/v1", '"http://app/v1" must end after the port'),
        ("unix:app.sock", '"unix:app.sock" must name an absolute path'),
    ],
)
def test_a_route_names_an_upstream_or_a_server(name: str, problem: str | None) -> None:
    findings = list(check_upstreams_named((Site(), Site(route=(Route(upstream=name),))), ["app"]))
    if problem is None:
        assert findings == []
    else:
        ((path, text),) = findings
        assert path == ("site", 1, "route", 0, "upstream")
        assert text.startswith(problem)
