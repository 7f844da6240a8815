"""Which paths of a site are files and which an app answers."""

from __future__ import annotations

from pathlib import Path

from edgebox.config.schema import Route
from tests.conftest import HELLO
from tests.origin import Call, listening, running
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
