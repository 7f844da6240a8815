"""`edgebox purge` and `edgebox explain` against a server that runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from edgebox.cli.main import main
from edgebox.cli.operate import split_url
from tests.origin import Call, Origin, proxied
from tests.wire import Server

HOUR = "Cache-Control: max-age=3600"
BY_HTTP = '[control]\nsocket = ""\n'


async def app(call: Call) -> None:
    await call.answer(HOUR, "Vary: X", "Surrogate-Key: t", body=call.target.encode())


@asynccontextmanager
async def filled(tmp_path: Path) -> AsyncIterator[tuple[Server, Origin]]:
    """A server that knows some pages, and a file that says where it listens."""
    async with proxied(app) as (server, origin):
        for target in ("/a", "/b", "/b/1"):
            await server.get(target)
        address = f'[server]\nlisten = ["127.0.0.1:{server.port}"]\n'
        (tmp_path / "box.toml").write_text(address + BY_HTTP)
        yield server, origin


async def run(tmp_path: Path, *arguments: str) -> Result:
    def invoke() -> Result:
        return CliRunner().invoke(main, [*arguments, "-c", str(tmp_path / "box.toml")])

    return await trio.to_thread.run_sync(invoke)


@pytest.mark.parametrize(
    ("arguments", "count", "left"),
    [
        (("http://x/a",), 1, 2),
        (("http://x/a", "http://x/b", "http://other/b"), 2, 1),
        (("--prefix", "http://x/b"), 2, 1),
        (("http://x/b*",), 2, 1),
        (("--prefix", "http://x/b/*"), 1, 2),
        (("--tag", "t", "--tag", "u"), 3, 0),
        (("--all",), 3, 0),
        (("--all", "--soft"), 3, 3),
    ],
)
async def test_purge(tmp_path: Path, arguments: tuple[str, ...], count: int, left: int) -> None:
    async with filled(tmp_path) as (server, _):
        result = await run(tmp_path, "purge", *arguments)
        assert (result.exit_code, result.output) == (0, f"{count} purged\n")
        assert server.worker.caching.engine.statistics()["answers"] == left


async def test_the_server_can_be_named(tmp_path: Path) -> None:
    async with filled(tmp_path) as (server, _):
        (tmp_path / "box.toml").write_text("")
        result = await run(tmp_path, "purge", "--all", "--server", f"*:{server.port}")
        assert result.output == "3 purged\n"


def test_purge_wants_to_know_what() -> None:
    result = CliRunner().invoke(main, ["purge"])
    assert result.exit_code == 2
    assert "a URL, --prefix, --tag or --all" in result.output


def test_purge_goes_over_the_control_socket_where_there_is_one(served: Any) -> None:
    served.answers["purge"] = {"ok": True, "purged": 5}
    result = served.run("purge", "http://x/ä", "--prefix", "http://x/b*", "--tag", "t", "--soft")
    assert result.output == "15 purged\n"
    assert served.heard == [
        {"verb": "purge", "urls": ["http://x/%C3%A4"], "soft": True},
        {"verb": "purge", "prefixes": ["http://x/b*"], "soft": True},
        {"verb": "purge", "tags": ["t"], "soft": True},
    ]
    served.heard.clear()
    assert served.run("purge", "--all").output == "5 purged\n"
    assert served.heard == [{"verb": "purge", "everything": True, "soft": False}]


def test_many_urls_go_in_parts_that_the_socket_takes(served: Any) -> None:
    served.answers["purge"] = {"ok": True, "purged": 1}
    urls = [f"http://x/{number}/{'y' * 1000}" for number in range(100)]
    assert served.run("purge", *urls).output == f"{len(served.heard)} purged\n"
    assert len(served.heard) > 1
    assert [url for part in served.heard for url in part["urls"]] == urls


def test_explain_goes_over_the_control_socket_where_there_is_one(served: Any) -> None:
    told = {
        "route": "/", "answered_by": "app", "key": "http://x/a", "stored": 0, "variants": [],
        "decision": {"serve": "miss", "text": "nothing is stored", "source": "§4"},
        "worker": 2, "stored_by_worker": {"1": 0, "2": 0},
    }  # fmt: skip
    served.answers["explain"] = {"ok": True, **told}
    result = served.run("explain", "http://x/a", "-H", "Accept: */*")
    assert "workers   this is worker 2; stored: worker 1 0, worker 2 0" in result.output
    assert json.loads(served.run("explain", "http://x/a", "--json").output) == told
    assert served.heard[0]["headers"] == {"Accept": "*/*"}


def test_who_names_a_socket_where_nobody_is_does_not_mean_http(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["purge", "--all", "--socket", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "no edgebox runs here" in result.output


@pytest.mark.parametrize("url", ["example.com/a", "ftp://x/a", "http:///a"])
def test_what_is_no_url_is_refused(url: str) -> None:
    result = CliRunner().invoke(main, ["purge", url])
    assert result.exit_code == 2
    assert "want http://HOST/PATH" in result.output


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "box.toml").write_text('[server]\nlisten = ["127.0.0.1:1"]\n' + BY_HTTP)
    result = CliRunner().invoke(main, ["purge", "--all", "-c", str(tmp_path / "box.toml")])
    assert result.exit_code == 1
    assert result.output == ("Error: no answer from 127.0.0.1:1: [Errno 111] Connection refused\n")


async def test_a_server_that_will_not_is_told_as_such(tmp_path: Path) -> None:
    async with proxied(app, cache={"purge_from": ()}) as (server, _):
        (tmp_path / "box.toml").write_text("")
        result = await run(tmp_path, "purge", "--all", "--server", f"127.0.0.1:{server.port}")
        assert (result.exit_code, result.output) == (
            1, f"Error: 127.0.0.1:{server.port} answered 403 Forbidden\n",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "split"),
    [
        ("http://h", ("h", "/")),
        ("https://h:81/a?b=c", ("h:81", "/a?b=c")),
        ("http://h/ä b", ("h", "/%C3%A4%20b")),
        ("http://h/a%2fb*", ("h", "/a%2fb*")),
    ],
)
def test_urls_as_people_write_them(url: str, split: tuple[str, str]) -> None:
    assert split_url(url) == split


async def test_explain_tells_people_and_programs(tmp_path: Path) -> None:
    async with filled(tmp_path) as (_, origin):
        result = await run(tmp_path, "explain", "http://x/a")
        assert result.exit_code == 0
        lines = result.output.splitlines()
        assert lines[:5] == [
            f"route     /, answered by {origin.url}",
            "key       http://x/a",
            "now       fresh: the stored response is fresh (RFC 9111 §4.2)",
            "stored    1 variant",
            "",
        ]
        assert lines[5] == "  1.  200, 2 octets in ram  fits"
        assert "      for   x: (none)" in lines
        assert "      fresh 3600 s (3600 s by max-age)" in lines
        assert "      tags  t" in lines
        other = await run(tmp_path, "explain", "http://x/a", "-H", "X: 1", "--json")
        assert json.loads(other.output)["decision"]["reason"] == "no-variant"
        assert len(origin.calls) == 3


HEAD = """HTTP/1.1 103 Early Hints
Link: </a>

HTTP/2 200
date: Mon, 30 Nov 1998 10:00:00 GMT
cache-control: max-age=60, stale-if-error=600
age: 10
vary: accept-language
surrogate-key: a b

"""


def judge(tmp_path: Path, head: str, *arguments: str, toml: str = "") -> Result:
    (tmp_path / "head").write_text(head)
    (tmp_path / "box.toml").write_text(toml)
    return CliRunner().invoke(
        main,
        ["explain", "http://x/a", "--response", str(tmp_path / "head"),
         "-c", str(tmp_path / "box.toml"), *arguments],
    )  # fmt: skip


def test_an_answer_can_be_judged_without_a_server(tmp_path: Path) -> None:
    result = judge(tmp_path, HEAD)
    assert (result.exit_code, result.output.splitlines()) == (0, [
        "route     /, answered by files",
        "key       http://x/a",
        "stored    yes: the response says how long it stays fresh (RFC 9111 §4.2.1)",
        "fresh     50 s (60 s by max-age)",
        "until     Mon, 30 Nov 1998 10:00:50 GMT",
        "stale     600 s if the upstream fails",
        "stale     86400 s if the upstream cannot be reached",
        "tags      a b",
        "varies    accept-language",
    ])  # fmt: skip


def test_it_is_judged_for_the_request_and_the_route(tmp_path: Path) -> None:
    result = judge(tmp_path, HEAD, "-H", "Authorization: Basic x")
    assert "stored    no: the request carried Authorization" in result.output
    toml = '[[site]]\n[[site.route]]\nupstream = "http://h"\n[[site.route]]\npath = "/a"\n'
    toml += 'upstream = "http://h"\ncache = false\ndrop_query = ["b"]\n'
    result = judge(tmp_path, HEAD, toml=toml)
    assert "stored    no: this route is set not to" in result.output
    assert json.loads(judge(tmp_path, HEAD, "--json", toml=toml).output)["route"] == "/a"


@pytest.mark.parametrize("head", ["", "hello\n", "HTTP/1.1 100 Continue\n\n"])
def test_what_is_no_answer_is_refused(tmp_path: Path, head: str) -> None:
    result = judge(tmp_path, head)
    assert result.exit_code == 2
    assert "no head of an HTTP response" in result.output
