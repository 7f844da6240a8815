"""Files that an app server names with X-Accel-Redirect or X-Sendfile.

The app is a raw socket that answers each path with the fields which the test gave it, and a
body that must never be seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest
import trio

from edgebox.config.schema import Route
from edgebox.files.statcache import TICK
from tests.wire import Server, configure, serving, statuses

OWN_BODY = b"the app's own body"


@dataclass
class App:
    """`answers`: status and fields by path. `asked`: the heads that came, in order."""

    answers: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)
    port: int = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            buffer = b""
            while data := await stream.receive_some(65536):
                buffer += data
                while b"\r\n\r\n" in buffer:
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    self.asked.append(head)
                    await stream.send_all(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        method, path = head.split()[:2]
        status, fields = self.answers[path.decode()]
        body = b"" if method == b"HEAD" or status.startswith(("204", "304")) else OWN_BODY
        lines = [
            f"HTTP/1.1 {status}", f"Date: {formatdate(usegmt=True)}",
            f"Content-Length: {len(body)}", *fields, "", "",
        ]  # fmt: skip
        return "\r\n".join(lines).encode() + body


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """The directory that may be named, with something outside of it."""
    vault = tmp_path / "vault"
    (vault / "sub").mkdir(parents=True)
    (vault / "a.txt").write_bytes(b"0123456789")
    (vault / "sub" / "a b%.pdf").write_bytes(b"%PDF")
    (vault / ".hidden").write_bytes(b"hidden")
    (vault / "big.bin").write_bytes(bytes(range(256)) * 8192)
    (tmp_path / "outside.txt").write_bytes(b"outside")
    (tmp_path / "vault2").mkdir()
    (tmp_path / "vault2" / "a.txt").write_bytes(b"outside")
    (vault / "escape.txt").symlink_to(tmp_path / "outside.txt")
    time.sleep(2 * TICK)  # so that no look finds them as fresh as to change unnoticed
    return vault


@asynccontextmanager
async def named(
    root: Path, answers: dict[str, tuple[str, list[str]]], **route: object
) -> AsyncIterator[tuple[App, Server]]:
    """A server whose every path goes to an app that answers `answers`."""
    app = App(answers)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, app.serve, 0)
        app.port = listeners[0].socket.getsockname()[1]
        there = Route(upstream=f"http://127.0.0.1:{app.port}", **route)  # type: ignore[arg-type]
        log = {"error": str(root / "error.log"), "level": "debug"}
        async with serving(configure(root, site={"route": (there,)}, log=log)) as server:
            yield app, server
        nursery.cancel_scope.cancel()


def accel(path: str, *fields: str) -> tuple[str, list[str]]:
    return "200 OK", [f"X-Accel-Redirect: {path}", *fields]


async def test_the_file_goes_out_with_the_apps_fields(root: Path, vault: Path) -> None:
    fields = [
        "Content-Type: application/x-secret", 'Content-Disposition: attachment; filename="b"',
        "Cache-Control: private", "Set-Cookie: a=1", "Set-Cookie: b=2", "X-Own: 1",
    ]  # fmt: skip
    answers = {
        "/accel": accel("/a.txt", *fields),
        "/sendfile": ("200 OK", [f"X-Sendfile: {vault}/a.txt", *fields]),
    }
    async with named(root, answers, accel=str(vault)) as (_, server):
        for path in answers:
            got = await server.get(path)
            assert (got.status, got.body) == (200, b"0123456789")
            assert got.headers["content-type"] == "application/x-secret"
            assert got.headers["content-disposition"] == 'attachment; filename="b"'
            assert got.headers["cache-control"] == "private"
            assert got.headers["x-own"] == "1"
            cookies = [value for name, value in got.raw_headers if name == "set-cookie"]
            assert cookies == ["a=1", "b=2"]
            assert got.headers["content-length"] == "10"
            assert [n for n, _ in got.raw_headers].count("date") == 1
            assert {"x-accel-redirect", "x-sendfile", "vary"}.isdisjoint(got.headers)


async def test_the_type_is_guessed_where_the_app_names_none(root: Path, vault: Path) -> None:
    answers = {"/f": accel("/sub/a%20b%25.pdf?version=2")}
    async with named(root, answers, accel=str(vault)) as (_, server):
        got = await server.get("/f")
        assert (got.headers["content-type"], got.body) == ("application/pdf", b"%PDF")


async def test_a_path_of_the_file_system_is_taken_as_it_is(root: Path, vault: Path) -> None:
    answers = {"/f": ("200 OK", [f"X-Sendfile: {vault}//sub/./a b%.pdf"])}
    async with named(root, answers, accel=f"{vault}/") as (_, server):
        assert (await server.get("/f")).body == b"%PDF"


async def test_the_app_may_name_what_starts_with_a_dot(root: Path, vault: Path) -> None:
    async with named(root, {"/f": accel("/.hidden")}, accel=str(vault)) as (_, server):
        assert (await server.get("/f")).body == b"hidden"


@pytest.mark.parametrize("name", ["a.txt", "big.bin"])
async def test_ranges_and_conditions_are_met_by_the_file(
    root: Path, vault: Path, name: str
) -> None:
    whole = (vault / name).read_bytes()
    # As frameworks do: a tag of the empty body, and a range already cut out of it.
    own = ['ETag: "empty"', "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"]
    answers = {
        "/f": accel(f"/{name}", *own),
        "/part": (
            "206 Partial Content",
            [f"X-Accel-Redirect: /{name}", "Content-Range: bytes 0-0/9999", *own],
        ),
    }
    async with named(root, answers, accel=str(vault)) as (_, server):
        full = await server.get("/f")
        assert full.body == whole
        etag, modified = full.headers["etag"], full.headers["last-modified"]
        assert etag != '"empty"'
        assert "1970" not in modified
        head = await server.get("/f", method="HEAD")
        assert (head.status, head.headers["content-length"]) == (200, str(len(whole)))
        for path in answers:
            part = await server.get(path, "Range: bytes=2-5")
            assert (part.status, part.body) == (206, whole[2:6])
            ranges = [v for n, v in part.raw_headers if n == "content-range"]
            assert ranges == [f"bytes 2-5/{len(whole)}"]
        several = await server.get("/f", "Range: bytes=0-0, 2-2")
        assert (several.status, several.headers["content-type"][:20]) == (
            206, "multipart/byteranges",
        )  # fmt: skip
        beyond = await server.get("/f", f"Range: bytes={len(whole)}-")
        assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(whole)}")
        assert [n for n, _ in beyond.raw_headers].count("date") == 1
        same = await server.get("/f", f"If-None-Match: {etag}")
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
        since = await server.get("/f", f"If-Modified-Since: {modified}")
        other = await server.get("/f", 'If-Match: "other"')
        old = await server.get("/f", "Range: bytes=0-0", 'If-Range: "empty"')
        assert statuses([since, other, old]) == [304, 412, 200]


async def test_nothing_outside_the_directory(root: Path, vault: Path) -> None:
    outside = vault.parent / "outside.txt"
    names = [
        "X-Accel-Redirect: /../outside.txt", "X-Accel-Redirect: /%2e%2e/outside.txt",
        "X-Accel-Redirect: /sub/../../outside.txt", "X-Accel-Redirect: /escape.txt",
        "X-Accel-Redirect: a.txt", "X-Accel-Redirect: /a.txt%00.pdf", "X-Accel-Redirect: /sub",
        "X-Accel-Redirect: /none.txt", "X-Accel-Redirect:", "X-Accel-Redirect: /..%2foutside.txt",
        f"X-Accel-Redirect: //{outside}",
        f"X-Sendfile: {outside}", f"X-Sendfile: {vault}/../outside.txt",
        f"X-Sendfile: {vault}2/a.txt", f"X-Sendfile: {vault}", f"X-Sendfile: {vault}/escape.txt",
        "X-Sendfile: a.txt", "X-Sendfile:",
    ]  # fmt: skip
    answers = {f"/{n}": ("200 OK", [name, "X-Secret: 1"]) for n, name in enumerate(names)}
    async with named(root, answers, accel=str(vault)) as (_, server):
        for path, name in zip(answers, names, strict=True):
            got = await server.get(path)
            assert got.status == 404, name
            assert b"outside" not in got.body.replace(b"outside.txt", b"")
            assert OWN_BODY not in got.body
            assert str(vault).encode() not in got.body
            assert "x-sendfile" not in got.headers
    log = (root / "error.log").read_text()
    assert log.count("that the upstream names") == len(names)


async def test_without_a_directory_the_fields_are_dropped(root: Path, vault: Path) -> None:
    answers = {
        "/f": accel("/a.txt", "Cache-Control: max-age=60"),
        "/g": ("200 OK", [f"X-Sendfile: {vault}/a.txt"]),
    }
    async with named(root, answers) as (app, server):
        for path in ("/f", "/f", "/g"):
            got = await server.get(path)
            assert (got.status, got.body) == (200, OWN_BODY)
            assert {"x-accel-redirect", "x-sendfile"}.isdisjoint(got.headers)
        assert len(app.asked) == 2, "it is an answer like any other, and may be stored"


async def test_the_app_is_asked_each_time_whatever_it_says_of_caching(
    root: Path, vault: Path
) -> None:
    fields = ("Cache-Control: public, max-age=3600", "CDN-Cache-Control: max-age=3600", "Vary: X")
    async with named(root, {"/f": accel("/a.txt", *fields)}, accel=str(vault)) as (app, server):
        for asked in range(1, 4):
            got = await server.get("/f")
            assert (got.body, len(app.asked)) == (b"0123456789", asked)
            assert got.headers["cache-control"] == "public, max-age=3600"
            assert got.headers["vary"] == "X"
        (vault / "a.txt").write_bytes(b"changed")
        assert (await server.get("/f")).body == b"changed"
        app.answers["/f"] = ("403 Forbidden", [])
        assert (await server.get("/f")).status == 403


async def test_a_posts_file_and_an_error_page_go_out_whole(root: Path, vault: Path) -> None:
    answers = {
        "/made": ("201 Created", ["X-Accel-Redirect: /a.txt"]),
        "/gone": ("410 Gone", ["X-Accel-Redirect: /a.txt"]),
    }
    async with named(root, answers, accel=str(vault)) as (_, server):
        made = await server.get("/made", "Range: bytes=0-1", "If-None-Match: *", method="POST")
        gone = await server.get("/gone", "Range: bytes=0-1")
        assert statuses([made, gone]) == [201, 410]
        assert made.body == gone.body == b"0123456789"


async def test_a_part_of_a_file_is_not_sought_in_the_body_that_names_it(
    root: Path, vault: Path
) -> None:
    whole = bytes(range(100))
    (vault / "long.bin").write_bytes(whole)
    answers = {"/f": accel("/long.bin", "Cache-Control: no-store")}
    async with named(root, answers, accel=str(vault)) as (_, server):
        part = await server.get("/f", "Range: bytes=50-59")
        assert (part.status, part.body) == (206, whole[50:60])


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_content_stays_so(root: Path, vault: Path, status: str) -> None:
    answers = {"/f": (status, ["X-Accel-Redirect: /a.txt", 'ETag: "own"'])}
    async with named(root, answers, accel=str(vault)) as (_, server):
        got = await server.get("/f", 'If-None-Match: "own"', "Cache-Control: no-store")
        assert (got.status, got.body) == (int(status[:3]), b"")
        assert got.headers["etag"] == '"own"'
        assert "x-accel-redirect" not in got.headers


async def test_an_offer_to_switch_protocols_changes_nothing(root: Path, vault: Path) -> None:
    upgrade = ("Connection: upgrade", "Upgrade: websocket")
    async with named(root, {"/f": accel("/a.txt")}, accel=str(vault)) as (_, server):
        assert (await server.get("/f", *upgrade)).body == b"0123456789"
    async with named(root, {"/f": accel("/a.txt")}) as (_, server):
        assert "x-accel-redirect" not in (await server.get("/f", *upgrade)).headers


async def test_clients_name_no_files(root: Path, vault: Path) -> None:
    async with named(root, {"/f": ("200 OK", [])}, accel=str(vault)) as (_, server):
        got = await server.get("/f", "X-Accel-Redirect: /a.txt", f"X-Sendfile: {vault}/a.txt")
        assert got.body == OWN_BODY


async def test_files_named_are_given_back(root: Path, vault: Path) -> None:
    async with named(root, {"/f": accel("/big.bin")}, accel=str(vault)) as (_, server):
        await server.get("/f")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            await server.get("/f")
            await server.get("/f", method="HEAD")
            await server.get("/f", "Range: bytes=0-9")
            async with server.connect() as client:  # leaves in the middle
                await client.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n")
        await server.wait_rest()
        server.worker.store._holdings.clear()
        assert len(os.listdir("/proc/self/fd")) <= before
