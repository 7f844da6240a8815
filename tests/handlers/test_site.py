"""Which paths of a site are files and which an app answers."""

from __future__ import annotations

from pathlib import Path

from edgebox.config.schema import Route
from tests.conftest import HELLO
from tests.origin import Call, listening, proxied, running
from tests.origin import before as configure_before
from tests.wire import request


async def app(call: Call) -> None:
    await call.answer("Cache-Control: max-age=60", body=call.target.encode())


async def test_the_longest_prefix_wins(root: Path) -> None:
    async with listening(app) as origin:
        routes = (Route(path="/app/static", upstream=""),)
        config = configure_before(
            origin.url, root=str(root), route={"path": "/app"}, site={"route": routes}
        )
        async with running(config) as server:
            assert (await server.get("/")).body == HELLO
            assert (await server.get("/a.txt")).body == b"0123456789" * 10
            for target in ("/app", "/app/", "/app/x", "/app/a.txt"):
                assert (await server.get(target)).body == target.encode()
            assert (await server.get("/apple")).status == 404
            assert (await server.get("/app/static/x")).status == 404
            assert len(origin.calls) == 4


async def test_files_and_cached_answers_share_the_lane(root: Path) -> None:
    async with listening(app) as origin:
        config = configure_before(origin.url, root=str(root), route={"path": "/app"})
        async with running(config) as server, server.connect() as client:
            for _ in range(4):
                for target in ("/a.txt", "/app/x"):
                    await client.send(request(target))
                    await client.read_answer()
            assert server.worker.counters.statistics()["express"] >= 6
            assert len(origin.calls) == 1


async def test_a_site_without_an_app_takes_no_orders(root: Path) -> None:
    config = configure_before("", root=str(root))
    async with running(config) as server:
        assert (await server.get("/", method="PURGE")).status in (405, 501)


async def test_an_encoded_slash_reaches_the_app_as_it_came_and_is_a_key_of_its_own() -> None:
    async with proxied(app) as (server, origin):
        targets = ("/@scope%2fname", "/@scope%2Fname", "/@scope/name", "/a%5Cb?x=%2f")
        for target in (*targets, *targets):
            assert (await server.get(target)).body == target.encode()
        assert [call.target for call in origin.calls] == list(targets)


async def test_files_have_no_encoded_slash(root: Path) -> None:
    config = configure_before("http://127.0.0.1:1", root=str(root), route={"path": "/app"})
    async with running(config) as server:
        for _ in range(2):
            for target in ("/sub%2fb.txt", "/a.txt%2f", "/sub%5cb.txt", "/%2fa.txt"):
                assert (await server.get(target)).status == 400
        assert (await server.get("/")).body == HELLO


async def test_nobody_gets_past_a_route_by_encoding_its_slash(root: Path) -> None:
    async with listening(app) as origin:
        routes = (Route(path="/admin", upstream=""),)
        config = configure_before(
            origin.url, root=str(root), route={"path": "/"}, site={"route": routes}
        )
        async with running(config) as server:
            for target in ("/admin%2fx", "/%2fadmin/x", "/x%2f..%2fadmin", "/admin/x%2f..%2f.."):
                assert (await server.get(target)).status == 400
            assert (await server.get("/x%2fadmin")).body == b"/x%2fadmin"
            assert [call.target for call in origin.calls] == ["/x%2fadmin"]


async def test_a_key_with_an_encoded_slash_is_purged_by_that_name() -> None:
    async with proxied(app) as (server, origin):
        for _ in range(2):
            await server.get("/a%2fb")
            await server.get("/a/b")
            purged = await server.get("/a%2fb", method="PURGE")
            assert purged.status == 200
        assert [call.target for call in origin.calls] == ["/a%2fb", "/a/b", "/a%2fb"]
