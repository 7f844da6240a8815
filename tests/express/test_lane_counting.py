"""What the lane counts: one tally an answer, summed up where somebody looks."""

from __future__ import annotations

from pathlib import Path

from tests.wire import configure, request, serving

TIMES = 7


async def test_answers_of_the_lane_are_counted_by_kind_url_and_time(root: Path) -> None:
    async with serving(configure(root)) as server:
        counters = server.worker.counters
        async with server.connect() as client:
            for _ in range(TIMES):
                await client.send(request("/a.txt", host="example.com"))
                assert (await client.read_answer()).status == 200
            await client.send(request("/nothing", host="example.com"))
            await client.read_answer()
        server.worker.epoch.turn()
        told = counters.statistics()
        assert told["express"] + told["requests"] == TIMES + 1
        assert told["express"] >= TIMES - 2
        assert (told["2xx"], told["4xx"]) == (TIMES, 1)
        answers, octets = counters.kinds["file"]
        assert (answers, octets) == (TIMES + 1, told["octets"])
        assert counters.total["file"].count == counters.first["file"].count == TIMES + 1
        assert counters.hottest.most(1)[0][0] == "example.com/a.txt"


async def test_figures_add_up_however_often_somebody_looks(root: Path) -> None:
    async with serving(configure(root)) as server:
        async with server.connect() as client:
            for expected in range(1, TIMES):
                await client.send(request("/a.txt"))
                await client.read_answer()
                told = server.worker.counters.statistics()
                assert told["express"] + told["requests"] == expected
                if expected % 3 == 0:
                    server.worker.epoch.forget()  # a file has changed
                if expected % 2 == 0:
                    server.worker.epoch.turn()


async def test_an_answer_that_the_lane_hands_on_is_counted_once(root: Path) -> None:
    (root / "half.bin").write_bytes(bytes(900 * 1024))  # in RAM, but in no socket's buffer
    async with serving(configure(root)) as server:
        for _ in range(3):
            async with server.connect() as client:
                await client.send(request("/half.bin"))
                assert len((await client.read_answer()).body) == 900 * 1024
        await server.wait_rest()
        counters = server.worker.counters
        server.worker.epoch.turn()
        assert counters.kinds["file"][0] == 3
        assert counters.statistics()["2xx"] == 3
