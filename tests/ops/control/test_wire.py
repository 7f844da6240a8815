"""A worker's wire and the supervisor's control, each in its own loop, over a real socketpair."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import Any

import pytest
import trio

from edgebox.ops.control.jsonlines import Message
from edgebox.ops.control.wire import Emit, Refused, Wire

SLOT = 2


class Worker:
    """A wire, and what it and its supervisor said."""

    def __init__(self, loop: Any) -> None:
        ours, theirs = socket.socketpair()
        self.loop = loop
        self.said: list[tuple[str, str]] = []
        self.wire = Wire(theirs, lambda level, text: self.said.append((level, text)))
        self.gone = trio.Event()
        self.wire.when_gone = self.gone.set
        loop.do(lambda: loop.control.attach(SLOT, ours))

    async def ask(self, **message: object) -> Message:
        """What the supervisor gets to hear."""
        token, done, answers = trio.lowlevel.current_trio_token(), trio.Event(), []

        def answer(told: Message) -> None:
            answers.append(told)
            trio.from_thread.run_sync(done.set, trio_token=token)

        await self.do(lambda: self.loop.control.ask(SLOT, message, answer))
        with trio.fail_after(10):
            await done.wait()
        return answers[0]

    async def do(self, call: Callable[[], Any]) -> Any:
        return await trio.to_thread.run_sync(self.loop.do, call)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.002)


@pytest.fixture
async def worker(loop: Any, nursery: trio.Nursery) -> Worker:
    made = Worker(loop)
    await nursery.start(made.wire.run)
    return made


async def test_a_verb_is_answered(worker: Worker) -> None:
    async def purge(message: Message) -> Message:
        return {"purged": message["count"]}

    worker.wire.verbs["purge"] = purge
    assert await worker.ask(verb="purge", count=3) == {"ok": True, "purged": 3}


async def test_what_cannot_be_done_says_why(worker: Worker) -> None:
    async def drain(message: Message) -> Message:
        raise Refused("there is no such server")

    worker.wire.verbs["drain"] = drain
    told = await worker.ask(verb="drain")
    assert told == {"ok": False, "error": "there is no such server"}
    assert not worker.said


async def test_a_bug_in_a_verb_costs_its_answer_only(worker: Worker) -> None:
    async def broken(message: Message) -> Message:
        raise ZeroDivisionError("oh")

    worker.wire.verbs["broken"] = broken
    told = await worker.ask(verb="broken")
    assert told == {"ok": False, "error": "internal error: ZeroDivisionError('oh')"}
    assert worker.said[0][0] == "error"
    assert "Traceback" in worker.said[0][1]
    assert (await worker.ask(verb="unknown"))["error"] == "a worker knows no verb 'unknown'"


async def test_a_slow_verb_holds_up_no_other(worker: Worker) -> None:
    asked = trio.Event()

    async def slow(message: Message) -> Message:
        await asked.wait()
        return {"slow": True}

    async def fast(message: Message) -> Message:
        asked.set()
        return {"fast": True}

    worker.wire.verbs |= {"slow": slow, "fast": fast}
    told: list[Message] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            told.append(await worker.ask(verb="slow"))

        nursery.start_soon(ask)
        assert await worker.ask(verb="fast") == {"ok": True, "fast": True}
    assert told == [{"ok": True, "slow": True}]


async def test_a_stream_ends_when_nobody_listens(worker: Worker) -> None:
    ended = trio.Event()

    async def log(message: Message, emit: Emit) -> Message:
        try:
            emit({"lines": ["a"]})
            emit({"lines": ["b"]})
            await trio.sleep(math.inf)
        finally:
            ended.set()
        return {}

    worker.wire.streams["log"] = log
    got: list[Message] = []
    number = await worker.do(lambda: worker.loop.control.ask(SLOT, {"verb": "log"}, got.append))
    await until(lambda: len(got) == 2)
    assert got == [{"ok": True, "more": True, "lines": [line]} for line in ("a", "b")]
    await worker.do(lambda: worker.loop.control.stop(number))
    with trio.fail_after(10):
        await ended.wait()
    await until(lambda: not worker.wire.statistics()["in_hand"])


async def test_a_stream_may_end_by_itself(worker: Worker) -> None:
    async def count(message: Message, emit: Emit) -> Message:
        emit({"number": 1})
        return {"number": 2}

    worker.wire.streams["count"] = count
    got: list[Message] = []
    await worker.do(lambda: worker.loop.control.ask(SLOT, {"verb": "count"}, got.append))
    await until(lambda: len(got) == 2)
    assert got == [{"ok": True, "more": True, "number": 1}, {"ok": True, "number": 2}]


async def test_events_reach_the_supervisor(worker: Worker) -> None:
    heard: list[tuple[int, Message]] = []
    worker.loop.control.events["ready"] = lambda slot, message: heard.append((slot, message))
    assert worker.wire.send_nowait({"event": "ready"})
    await until(lambda: bool(heard))
    assert heard == [(SLOT, {"event": "ready"})]


async def test_an_event_may_want_an_answer(worker: Worker) -> None:
    control = worker.loop.control

    def purge(slot: int, message: Message) -> None:
        done = message["fine"]
        answer = {"answered": message["ask"], "ok": done}
        control.tell(slot, answer if done else {**answer, "error": "worker 5 is deaf"})

    control.events["purge"] = purge
    assert (await worker.wire.ask({"event": "purge", "fine": True}))["ok"] is True
    with pytest.raises(Refused, match="worker 5 is deaf"):
        await worker.wire.ask({"event": "purge", "fine": False})


async def test_a_supervisor_that_does_not_answer_is_not_waited_for(
    loop: Any, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = socket.socketpair()
    wire = Wire(theirs, lambda level, text: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(wire.run)
        with pytest.raises(Refused, match="has not answered for 10 s"):
            await wire.ask({"event": "purge"})
        nursery.cancel_scope.cancel()
    ours.close()


async def test_a_worker_notices_that_the_supervisor_is_gone(worker: Worker) -> None:
    await worker.do(lambda: worker.loop.control.detach(SLOT))
    with trio.fail_after(10):
        await worker.gone.wait()
    worker.wire.send_nowait({"event": "nobody hears it"})


async def test_a_request_in_hand_ends_with_the_supervisor(worker: Worker) -> None:
    async def forever(message: Message) -> Message:
        await trio.sleep(math.inf)
        raise AssertionError

    worker.wire.verbs["forever"] = forever
    await worker.do(
        lambda: worker.loop.control.ask(SLOT, {"verb": "forever"}, lambda message: None)
    )
    await until(lambda: worker.wire.statistics()["in_hand"] == 1)
    await worker.do(lambda: worker.loop.control.detach(SLOT))
    with trio.fail_after(10):
        await worker.gone.wait()


async def test_nonsense_on_the_wire_is_told_and_ends_it(nursery: trio.Nursery) -> None:
    ours, theirs = socket.socketpair()
    said: list[str] = []
    gone = trio.Event()
    wire = Wire(theirs, lambda level, text: said.append(text))
    wire.when_gone = gone.set
    await nursery.start(wire.run)
    ours.sendall(b"nonsense\n")
    with trio.fail_after(10):
        await gone.wait()
    assert "the wire to the supervisor is broken" in said[0]
    ours.close()


async def test_octets_that_were_read_before_are_heard_first(nursery: trio.Nursery) -> None:
    """Whoever reads the configuration off the wire may read beyond its line."""
    ours, theirs = socket.socketpair()
    wire = Wire(theirs, lambda level, text: None, early=b'{"verb": "x", "id": 1}\n{"verb": ')
    ours.sendall(b'"y", "id": 2}\n')
    got: list[Any] = []

    async def note(message: Message) -> Message:
        got.append(message["verb"])
        return {}

    wire.verbs |= {"x": note, "y": note}
    await nursery.start(wire.run)
    await until(lambda: len(got) == 2)
    assert sorted(got) == ["x", "y"]
    ours.close()
    await until(lambda: not wire.statistics()["in_hand"])


async def test_events_that_nobody_reads_are_lost_and_counted() -> None:
    ours, theirs = socket.socketpair()
    wire = Wire(theirs, lambda level, text: None)
    with ours, theirs:
        while wire.send_nowait({"event": "log"}):
            pass
        assert wire.statistics()["lost"] == 1
