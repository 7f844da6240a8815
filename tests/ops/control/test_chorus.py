"""Many workers as one: what they answer, what goes wrong with one of them, who comes later."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgebox.ops.control.chorus import Chorus, merge_counts, merge_explained, merge_servers
from edgebox.ops.control.jsonlines import Message, refusal
from edgebox.ops.control.wires import gone

Connect = Callable[[], Any]


class Worker:
    """Answers what it is asked by `answer`; None is no answer. `heard` is all it was told."""

    def __init__(
        self, loop: Any, slot: int, answer: Callable[[Message], Message | None], ready: bool
    ) -> None:
        self.loop = loop
        self.slot = slot
        self.heard: list[Message] = []
        self.answer = answer
        ours, self._sock = socket.socketpair()
        self._more = threading.Condition()
        loop.do(lambda: loop.control.attach(slot, ours))
        if ready:
            self.say(event="ready")
            deadline = time.monotonic() + 10
            while slot not in loop.do(lambda: loop.control.serving):
                assert time.monotonic() < deadline
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._sock.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                with self._more:
                    self.heard.append(message)
                    self._more.notify_all()
                answer = self.answer(message) if "id" in message else None
                if answer is not None:
                    self.say(**answer, id=message["id"])

    def say(self, **message: object) -> None:
        self._sock.sendall(json.dumps(message).encode() + b"\n")

    def wait_heard(self, count: int) -> list[Message]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.heard) >= count, 10), self.heard
        return self.heard

    def end(self) -> None:
        self.loop.do(lambda: self.loop.control.detach(self.slot))
        self._thread.join(10)
        self._sock.close()


@pytest.fixture
def hire(loop: Any) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def make(
        slot: int, answer: Callable[[Message], Message | None] = lambda _: None, ready: bool = True
    ) -> Worker:
        workers.append(Worker(loop, slot, answer, ready))
        return workers[-1]

    yield make
    for worker in workers:
        worker.end()


@pytest.fixture
def chorus(loop: Any) -> Chorus:
    made: Chorus = loop.do(lambda: Chorus(loop.control))
    return made


def wait_for_one(loop: Any) -> None:
    """Until but one worker has answered."""
    deadline = time.monotonic() + 10
    while loop.do(loop.control.statistics)["asked"] > 1:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def purged(count: int) -> Callable[[Message], Message]:
    return lambda message: {"ok": True, "purged": count}


def test_a_purge_is_done_when_all_have_done_it(
    chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    workers = [hire(slot, purged(slot)) for slot in (1, 2, 5)]
    assert connect().ask(verb="purge", tags=["t"]) == {"ok": True, "purged": 8}
    assert [worker.wait_heard(1)[0]["tags"] for worker in workers] == [["t"]] * 3


def test_one_that_is_starting_is_told_and_not_waited_for(
    chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    hire(1, purged(1))
    starting = hire(2, ready=False)
    assert connect().ask(verb="purge", tags=["t"]) == {"ok": True, "purged": 1}
    assert starting.wait_heard(1) == [{"verb": "purge", "tags": ["t"]}]


def test_without_a_worker_nothing_is_done_and_that_is_said(
    chorus: Chorus, connect: Connect
) -> None:
    client = connect()
    for verb in ("purge", "ban", "explain", "upstream"):
        assert "no worker runs" in client.ask(verb=verb)["error"]


def test_one_that_does_not_answer_is_told_of(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    hire(1, purged(1))
    deaf = hire(2)
    client = connect()
    client.say(verb="purge", everything=True)
    deaf.wait_heard(1)
    wait_for_one(loop)
    loop.turn_at(10.0)
    told = client.read()
    assert told["ok"] is False
    assert told["error"] == "worker 2 has not answered for 10 s; 1 other workers have done it"
    assert told["purged"] == 1


def test_one_that_dies_has_forgotten_all(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    hire(1, purged(1))
    dying = hire(2)
    client = connect()
    client.say(verb="purge", everything=True)
    dying.wait_heard(1)
    wait_for_one(loop)
    loop.do(lambda: loop.control.detach(2))
    assert client.read() == {"ok": True, "purged": 1}


def test_a_purge_by_http_is_told_to_the_others_and_then_answered(
    chorus: Chorus, hire: Callable[..., Worker]
) -> None:
    purges = [{"scope": "key", "value": "http://x/", "soft": False}]
    asker, other = hire(1), hire(2, purged(0))
    asker.say(event="purge", purges=purges, ask=7)
    (told,) = asker.wait_heard(1)
    assert told == {"answered": 7, "ok": True, "purged": 0}
    assert other.heard[0]["purges"] == purges


def test_a_purge_by_http_needs_nobody_else(chorus: Chorus, hire: Callable[..., Worker]) -> None:
    asker = hire(1)
    asker.say(event="purge", purges=[], ask=1)
    assert asker.wait_heard(1) == [{"answered": 1, "ok": True}]


def test_a_purge_by_http_that_fails_elsewhere_says_so(
    chorus: Chorus, hire: Callable[..., Worker]
) -> None:
    asker = hire(1)
    hire(2, lambda message: refusal("broken"))
    asker.say(event="purge", purges=[], ask=1)
    (told,) = asker.wait_heard(1)
    assert (told["ok"], told["error"]) == (False, "broken")


def test_a_server_that_is_drained_is_drained_for_workers_that_come_later(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    def servers(message: Message) -> Message:
        return {"ok": True, "servers": []}

    hire(1, servers)
    client = connect()
    order = {"verb": "upstream", "server": "http://a"}
    assert client.ask(**order, action="drain")["ok"]
    assert client.ask(**order, action="drain", pool="p")["ok"]
    later = hire(2)
    loop.do(lambda: chorus.ready(2) or True)
    assert later.wait_heard(2) == [
        {**order, "action": "drain"},
        {**order, "action": "drain", "pool": "p"},
    ]
    later.answer = servers
    assert client.ask(**order, action="up")["ok"]
    latest = hire(3)
    loop.do(lambda: chorus.ready(3) or True)
    loop.do(lambda: loop.control.tell(3, {"verb": "mark"}))
    assert latest.wait_heard(1) == [{"verb": "mark"}]


def test_a_drain_that_was_refused_is_not_remembered(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    hire(1, lambda message: refusal("there is no such server"))
    told = connect().ask(verb="upstream", action="drain", server="http://a")
    assert told == {"ok": False, "error": "there is no such server"}
    later = hire(2)
    loop.do(lambda: chorus.ready(2) or True)
    loop.do(lambda: loop.control.tell(2, {"verb": "mark"}))
    assert later.wait_heard(1) == [{"verb": "mark"}]


def record(number: int) -> dict[str, object]:
    return {"ok": True, "more": True, "records": [{"n": number}], "left_out": 0}


def test_the_log_is_that_of_all_workers_and_of_those_that_come_later(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    workers = [hire(1), hire(2)]
    client = connect()
    client.say(verb="log", query="status>=500")
    for worker in workers:
        (asked,) = worker.wait_heard(1)
        assert asked["query"] == "status>=500"
        worker.say(**record(worker.slot), id=asked["id"])
    assert {client.read()["records"][0]["n"] for _ in workers} == {1, 2}
    loop.do(lambda: chorus.ready(1) or True)  # it listens there already
    later = hire(3)
    loop.do(lambda: chorus.ready(3) or True)
    (asked,) = later.wait_heard(1)
    later.say(**record(3), id=asked["id"])
    assert client.read()["records"] == [{"n": 3}]
    workers[0].end()
    later.say(**record(4), id=asked["id"])
    assert client.read()["records"] == [{"n": 4}]
    client.close()
    assert later.wait_heard(2)[1] == {"verb": "stop", "id": asked["id"]}
    assert len(workers[1].wait_heard(2)) == 2


def test_a_query_that_is_none_ends_the_log_for_all(
    chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    other = hire(1)
    hire(2, lambda message: refusal("the query makes no sense"))
    client = connect()
    assert client.ask(verb="log", query="x") == refusal("the query makes no sense")
    assert other.wait_heard(2)[1]["verb"] == "stop"
    assert "no verb" in client.ask(verb="x")["error"]  # the connection goes on


def test_a_client_that_reads_slowly_is_spared_lines_and_told_how_many(
    loop: Any, chorus: Chorus, connect: Connect, hire: Callable[..., Worker]
) -> None:
    worker, client = hire(1), connect()
    client.say(verb="log")
    (asked,) = worker.wait_heard(1)
    long = {"ok": True, "more": True, "records": [{"n": "x" * 1000}] * 100, "left_out": 0}
    marked = threading.Event()
    loop.control.events["mark"] = lambda slot, message: marked.set()
    for _ in range(30):
        worker.say(**long, id=asked["id"])
    worker.say(event="mark")
    assert marked.wait(10)
    left_out = chorus._listeners[0]._left_out
    assert 0 < left_out < 3000
    for _ in range(30 - left_out // 100):
        assert client.read()["left_out"] == 0
    worker.say(**record(1), id=asked["id"])
    assert client.read() == {**record(1), "left_out": left_out}


# --- how answers become one --------------------------------------------------------------------


def test_counts_add_up() -> None:
    both = {1: {"ok": True, "purged": 2}, 2: {"ok": True, "purged": 3}}
    assert merge_counts(both) == {"ok": True, "purged": 5}
    assert merge_counts({1: refusal("no"), 2: refusal("never")}) == refusal("no")


def test_explain_is_told_by_who_has_most() -> None:
    answers = {
        1: {"ok": True, "stored": 0, "key": "k"},
        2: {"ok": True, "stored": 2, "key": "k"},
        3: {"ok": True, "stored": 2, "key": "k"},
        4: gone(4),
    }
    told = merge_explained(answers)
    assert (told["worker"], told["stored"]) == (2, 2)
    assert told["stored_by_worker"] == {"1": 0, "2": 2, "3": 2}
    assert merge_explained({1: refusal("no URL")}) == refusal("no URL")
    assert merge_explained({1: {"ok": True, "answered_by": "files"}})["worker"] == 1


def test_servers_add_up_and_standings_are_counted() -> None:
    def seen(standing: str, active: int, server: str = "http://a") -> dict[str, object]:
        told = {"pool": "p", "server": server, "standing": standing, "active": active}
        return told | {"head_us": 10 * active}

    answers = {
        1: {"ok": True, "servers": [seen("up", 2), seen("up", 0, "http://b")]},
        2: {"ok": True, "servers": [seen("down", 0), seen("up", 1, "http://b")]},
        3: gone(3),
    }
    first, second = merge_servers(answers)["servers"]
    assert first == {
        "pool": "p", "server": "http://a", "standings": {"up": 1, "down": 1}, "active": 2,
        "head_us": 20,
    }  # fmt: skip
    assert (second["standings"], second["active"]) == ({"up": 2}, 1)
    assert merge_servers({1: refusal("no")}) == refusal("no")
