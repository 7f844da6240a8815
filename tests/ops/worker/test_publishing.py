from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from edgebox.config.schema import Config
from edgebox.listen.sockets import bind
from edgebox.observe.pages import SHEET, Pages, Reading
from edgebox.ops.worker.onlookers import Onlookers
from edgebox.ops.worker.publishing import Publisher
from tests.wire import Server, configure, request, serving


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages.create()
    made.slot(0).claim(1, 1)
    yield made
    made.close()


@pytest.fixture(params=[True, False], ids=["lane", "tasks"])
def config(request: pytest.FixtureRequest, root: Path) -> Config:
    return configure(root, server={"express": request.param})


def publisher(server: Server, pages: Pages) -> Publisher:
    return server.worker.publisher(pages.slot(0))


def reading(pages: Pages) -> Reading:
    found = pages.slot(0).read()
    assert found is not None
    return found


async def test_what_clients_got_is_published(config: Config, pages: Pages) -> None:
    async with serving(config) as server:
        telling = publisher(server, pages)
        for target in ("/", "/", "/a.txt", "/big.bin", "/nothing"):
            await server.get(target)
        telling.turn()
        told = reading(pages)
        assert told.numbers["requests"] == 5
        assert told.numbers["accepted"] == 5
        assert (told.numbers["2xx"], told.numbers["4xx"]) == (4, 1)
        assert told.numbers["octets"] > 1_500_000
        assert told.numbers["connections_limit"] == config.limits.connections
        assert 0 < told.numbers["ram_held"] <= told.numbers["ram_budget"]
        ram = told.sheet["ram"]
        assert isinstance(ram, list)
        assert {(row["site"], row["type"]) for row in ram} >= {
            ("any host", "pages"),
            ("any host", "text"),
        }
        assert sum(row["octets"] for row in ram) == told.sheet["ledger"]["working set"]  # type: ignore[index]


async def test_a_task_is_timed_and_its_url_counted(root: Path, pages: Pages) -> None:
    async with serving(configure(root, server={"express": False})) as server:
        telling = publisher(server, pages)
        for _ in range(3):
            await server.get("/a.txt?query=1")
        telling.turn()
        told = reading(pages)
        assert told.numbers["file"] == 3
        first, total = told.histograms["file_first"], told.histograms["file_total"]
        assert first.count == total.count == 3
        assert 0 < first.seconds <= total.seconds
        assert told.sheet["hot"][0][0] == "x/a.txt"  # type: ignore[index]


async def test_each_turn_is_a_beat_and_tells_the_sum_since_the_start(
    config: Config, pages: Pages
) -> None:
    async with serving(config) as server:
        telling = publisher(server, pages)
        pages.slot(0).beat(0)
        for expected in (1, 2, 3):
            await server.get("/")
            telling.turn()
            assert reading(pages).numbers["requests"] == expected
        assert reading(pages).beat > 0


async def test_warnings_are_counted_and_shown(config: Config, pages: Pages) -> None:
    async with serving(config) as server:
        telling = publisher(server, pages)
        server.worker.errors("warning", "the disk is slow")
        server.worker.errors("info", "nothing of note")
        telling.turn()
        told = reading(pages)
        assert told.numbers["warnings"] == 1
        errors = told.sheet["errors"]
        assert isinstance(errors, list)
        assert [(level, text) for _, level, text in errors] == [("warning", "the disk is slow")]


async def test_a_sheet_that_would_be_too_long_goes_without_its_longest_tables(
    config: Config, pages: Pages
) -> None:
    async with serving(config) as server:
        telling = publisher(server, pages)
        for number in range(20):
            server.worker.errors("error", f"number {number} " + "x" * 10_000)
        sheet = telling.sheet()
        assert len(sheet) <= SHEET
        assert "ledger" in json.loads(sheet)


async def test_onlookers_see_the_page_and_change_no_figure(config: Config, pages: Pages) -> None:
    async with serving(config) as server:
        telling = publisher(server, pages)
        worker = server.worker
        with ExitStack() as stack:
            listener = stack.enter_context(bind("127.0.0.1:0", 16))
            onlookers = Onlookers(
                pages, config.status, worker.epoch, worker.service.rules, worker.errors
            )
            await server.nursery.start(onlookers.run, [listener])
            watching = Server(worker, listener.getsockname()[1], server.nursery)
            await server.get("/")
            telling.turn()
            assert (await watching.get("/?auto")).status == 200
            assert (await watching.get("/metrics")).status == 200
            assert (await watching.get("/a.txt")).status == 404  # no site is served there
            assert (await server.get("/metrics")).status == 404  # nor the other way round
            telling.turn()
            assert reading(pages).numbers["requests"] == 2


async def test_who_watches_is_let_go_when_the_worker_drains(config: Config, pages: Pages) -> None:
    async with serving(config) as server:
        worker = server.worker
        with ExitStack() as stack:
            listener = stack.enter_context(bind("127.0.0.1:0", 16))
            onlookers = Onlookers(
                pages, config.status, worker.epoch, worker.service.rules, worker.errors
            )
            await server.nursery.start(onlookers.run, [listener])
            watching = Server(worker, listener.getsockname()[1], server.nursery)
            async with watching.connect() as client:
                await client.send(request("/?events"))
                with trio.fail_after(10):
                    while b"data: " not in client.buffer:
                        client.buffer += await client.stream.receive_some(65536)
                    onlookers.drain()
                    assert (await client.read_all()).endswith(b"0\r\n\r\n")
