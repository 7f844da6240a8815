from __future__ import annotations

import json
import os
import resource
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebox.ops.control.control import CLIENTS, REQUESTS, SILENCE, Control, Reply
from edgebox.ops.control.jsonlines import Message

Connect = Callable[[], Any]


@pytest.fixture
def echo(loop: Any) -> None:
    def answer(message: Message, reply: Reply) -> None:
        reply({"ok": True, "said": message.get("say")})

    loop.control.verbs["echo"] = answer


@pytest.fixture
def worker(loop: Any) -> Iterator[socket.socket]:
    """The worker's end of the wire of slot 3."""
    ours, theirs = socket.socketpair()
    loop.do(lambda: loop.control.attach(3, ours))
    theirs.settimeout(10)
    yield theirs
    theirs.close()


def hear(worker: socket.socket) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        line += worker.recv(1)
    told: dict[str, Any] = json.loads(line)
    return told


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


# --- clients ---------------------------------------------------------------------------------


def test_a_verb_is_answered(connect: Connect, echo: None) -> None:
    client = connect()
    assert client.ask(verb="echo", say=1) == {"ok": True, "said": 1}
    assert client.ask(verb="echo", say=2) == {"ok": True, "said": 2}


def test_the_socket_has_its_mode_from_the_start(connect: Connect, place: Path) -> None:
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o660


def test_the_path_goes_with_the_server(loop: Any, connect: Connect, place: Path) -> None:
    loop.do(loop.control.close)
    assert not place.exists()


def test_an_unknown_verb_gets_those_that_there_are(connect: Connect, echo: None) -> None:
    told = connect().ask(verb="ecko")
    assert told == {"ok": False, "error": "there is no verb 'ecko'; there are echo"}


@pytest.mark.parametrize("line", [b"garbage\n", b"[]\n", b"\xff\xfe\n", b'{"verb": 7}\n', b"{}\n"])
def test_garbage_is_refused_and_what_comes_next_is_answered(
    connect: Connect, echo: None, line: bytes
) -> None:
    client = connect()
    client.write(line)
    assert client.read()["ok"] is False
    assert client.ask(verb="echo")["ok"] is True


def test_empty_lines_are_nothing(connect: Connect, echo: None) -> None:
    client = connect()
    client.write(b"\n \r\n")
    assert client.ask(verb="echo")["ok"] is True


def test_a_huge_line_ends_its_client_and_nobody_else(connect: Connect, echo: None) -> None:
    client, other = connect(), connect()
    client.write(b"x" * 65_537)
    assert client.read() == {"ok": False, "error": "a line may have 65536 octets"}
    assert client.ended()
    assert other.ask(verb="echo")["ok"] is True


def test_who_has_said_all_is_still_answered(loop: Any, connect: Connect) -> None:
    replies: list[Reply] = []
    loop.control.verbs["later"] = lambda message, reply: replies.append(reply)
    client = connect()
    client.write(b'{"verb": "later"}')  # no end of line either
    client.sock.shutdown(socket.SHUT_WR)
    until(lambda: bool(replies))
    loop.do(lambda: replies[0]({"ok": True}))
    assert client.read() == {"ok": True}
    assert client.ended()


def test_who_leaves_midway_is_forgotten(loop: Any, connect: Connect) -> None:
    replies: list[Reply] = []
    gone: list[bool] = []

    def later(message: Message, reply: Reply) -> None:
        reply.when_gone = lambda: gone.append(True)
        replies.append(reply)

    loop.control.verbs["later"] = later
    client = connect()
    client.say(verb="later")
    until(lambda: bool(replies))
    client.close()
    until(lambda: not loop.do(lambda: loop.control.turn() or loop.control._clients))
    assert gone == [True]
    assert replies[0].gone
    loop.do(lambda: replies[0]({"ok": True}))


def test_a_bug_in_a_verb_costs_its_answer_only(loop: Any, connect: Connect, echo: None) -> None:
    def broken(message: Message, reply: Reply) -> None:
        raise ZeroDivisionError("oh")

    loop.control.verbs["broken"] = broken
    client = connect()
    assert client.ask(verb="broken") == {
        "ok": False,
        "error": "internal error: ZeroDivisionError('oh')",
    }
    assert client.ask(verb="echo")["ok"] is True
    assert loop.said[0][0] == "error"


def test_an_answer_that_is_no_json_is_a_bug_like_any_other(loop: Any, connect: Connect) -> None:
    loop.control.verbs["broken"] = lambda message, reply: reply({"ok": True, "what": object()})
    assert "internal error" in connect().ask(verb="broken")["error"]


def test_a_bug_over_a_workers_answer_costs_that_only(loop: Any, worker: socket.socket) -> None:
    def broken(message: Message) -> None:
        raise ZeroDivisionError("oh")

    number = loop.do(lambda: loop.control.ask(3, {"verb": "purge"}, broken))
    worker.sendall(b'{"id": %d, "ok": true}\n' % number)
    until(lambda: bool(loop.said))
    assert "ZeroDivisionError" in loop.said[0][1]
    assert loop.do(lambda: loop.control.slots) == [3]


def test_a_reply_may_say_many_things(loop: Any, connect: Connect) -> None:
    def count(message: Message, reply: Reply) -> None:
        for number in range(3):
            reply({"ok": True, "more": True, "number": number})
        reply({"ok": True})
        reply({"ok": True, "too": "late"})

    loop.control.verbs["count"] = count
    client = connect()
    assert [client.ask(verb="count").get("number")] + [
        client.read().get("number") for _ in range(3)
    ] == [0, 1, 2, None]
    assert client.ask(verb="nothing")["ok"] is False  # the next line, not a late one


def test_who_does_not_read_is_given_up(loop: Any, connect: Connect, echo: None) -> None:
    replies: list[Reply] = []
    loop.control.verbs["flood"] = lambda message, reply: replies.append(reply)
    client, other = connect(), connect()
    client.say(verb="flood")
    until(lambda: bool(replies))
    piece = {"ok": True, "more": True, "text": "x" * 1_000_000}
    loop.do(lambda: replies[0](piece))
    assert replies[0].behind
    assert not replies[0].gone
    for _ in range(12):
        loop.do(lambda: replies[0](piece))
    assert replies[0].gone
    assert other.ask(verb="echo")["ok"] is True


def test_a_slow_reader_gets_everything(loop: Any, connect: Connect) -> None:
    loop.control.verbs["long"] = lambda message, reply: reply({"ok": True, "text": "x" * 3_000_000})
    client = connect()
    client.say(verb="long")
    time.sleep(0.05)
    assert len(client.read()["text"]) == 3_000_000


def test_requests_without_end_are_refused(loop: Any, connect: Connect, echo: None) -> None:
    loop.control.verbs["later"] = lambda message, reply: None
    client = connect()
    client.write(b'{"verb": "later"}\n' * (REQUESTS + 1))
    assert client.read() == {"ok": False, "error": "too many requests before their answers"}
    assert client.ended()
    assert connect().ask(verb="echo")["ok"] is True


def test_silent_clients_make_room(loop: Any, connect: Connect, echo: None) -> None:
    clients = [connect() for _ in range(CLIENTS)]
    assert clients[0].ask(verb="echo")["ok"] is True  # the others are the idle ones
    one_more = connect()
    assert one_more.ask(verb="echo")["ok"] is True
    assert "too many clients" in clients[1].read()["error"]
    assert clients[1].ended()
    assert clients[0].ask(verb="echo")["ok"] is True


def test_silence_ends_a_client_but_not_one_that_waits(loop: Any, connect: Connect) -> None:
    replies: list[Reply] = []
    loop.control.verbs["later"] = lambda message, reply: replies.append(reply)
    silent, waits = connect(), connect()
    waits.say(verb="later")
    until(lambda: len(loop.do(lambda: list(loop.control._clients))) == 2 and bool(replies))
    loop.turn_at(SILENCE + 1)
    assert silent.ended()
    loop.do(lambda: replies[0]({"ok": True}))
    assert waits.read() == {"ok": True}


def test_without_descriptors_it_waits_for_the_next_turn(
    loop: Any, connect: Connect, echo: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    try:
        with pytest.raises(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        client.settimeout(10)
        client.connect(loop.control.listener.getsockname())
        until(lambda: any("control socket" in text for _, text in loop.said))
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(loop.said) == 1  # it did not spin
    loop.turn_at(1)
    client.sendall(b'{"verb": "echo"}\n')
    assert client.recv(100) == b'{"ok":true,"said":null}\n'
    client.close()


# --- workers ---------------------------------------------------------------------------------


def test_a_worker_is_asked_and_answers(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    loop.do(lambda: loop.control.ask(3, {"verb": "purge"}, answers.append))
    asked = hear(worker)
    assert asked == {"verb": "purge", "id": asked["id"]}
    worker.sendall(b'{"id": %d, "ok": true, "purged": 2}\n' % asked["id"])
    until(lambda: bool(answers))
    assert answers == [{"ok": True, "purged": 2}]
    assert loop.do(loop.control.statistics)["asked"] == 0


def test_a_worker_that_is_silent_is_answered_for(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    loop.do(lambda: loop.control.ask(3, {"verb": "purge"}, answers.append, 5))
    loop.turn_at(4.9)
    assert not answers
    loop.turn_at(5.0)
    assert answers == [{"ok": False, "error": "worker 3 has not answered for 5 s"}]
    number = hear(worker)["id"]
    assert hear(worker) == {"verb": "stop", "id": number}
    worker.sendall(b'{"id": %d, "ok": true}\n' % number)  # too late
    until(lambda: loop.do(loop.control.statistics)["late"] == 1)
    assert len(answers) == 1


def test_a_worker_that_goes_is_answered_for_and_missed(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    loop.do(lambda: loop.control.ask(3, {"verb": "purge"}, answers.append))
    worker.close()
    until(lambda: bool(loop.lost))
    assert answers == [{"ok": False, "error": "worker 3 is gone", "gone": True}]
    assert [slot for slot, _ in loop.lost] == [3]
    assert loop.control.slots == []


def test_a_worker_let_go_is_answered_for_and_not_missed(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    loop.do(lambda: loop.control.ask(3, {"verb": "purge"}, answers.append))
    loop.do(lambda: loop.control.detach(3))
    assert answers == [{"ok": False, "error": "worker 3 is gone", "gone": True}]
    assert loop.lost == []


def test_nobody_in_a_slot_answers_at_once(loop: Any) -> None:
    answers: list[Message] = []
    loop.do(lambda: loop.control.ask(9, {"verb": "purge"}, answers.append))
    assert answers == [{"ok": False, "error": "worker 9 is gone", "gone": True}]
    assert loop.control.tell(9, {"verb": "x"}) is False


def test_a_stream_goes_on_for_as_long_as_pieces_come(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    number = loop.do(lambda: loop.control.ask(3, {"verb": "log"}, answers.append, 5))
    hear(worker)
    loop.turn_at(4.0)
    worker.sendall(b'{"id": %d, "ok": true, "more": true}\n' % number)
    until(lambda: len(answers) == 1)
    loop.turn_at(8.0)
    assert len(answers) == 1
    loop.do(lambda: loop.control.stop(number))
    assert hear(worker) == {"verb": "stop", "id": number}
    loop.turn_at(100.0)
    assert len(answers) == 1


def test_events_find_who_wants_them(loop: Any, worker: socket.socket) -> None:
    heard: list[tuple[int, Message]] = []
    loop.control.events["ready"] = lambda slot, message: heard.append((slot, message))
    worker.sendall(b'{"event": "nobody\'s"}\n{"event": "ready"}\n')
    until(lambda: bool(heard))
    assert heard == [(3, {"event": "ready"})]


def test_one_worker_cannot_answer_for_another(loop: Any, worker: socket.socket) -> None:
    answers: list[Message] = []
    ours, theirs = socket.socketpair()
    loop.do(lambda: loop.control.attach(4, ours))
    number = loop.do(lambda: loop.control.ask(4, {"verb": "purge"}, answers.append))
    worker.sendall(b'{"id": %d, "ok": true}\n' % number)
    until(lambda: loop.do(loop.control.statistics)["late"] == 1)
    assert not answers
    theirs.close()


def test_a_worker_that_speaks_nonsense_is_cut_off(loop: Any, worker: socket.socket) -> None:
    worker.sendall(b"nonsense\n")
    until(lambda: bool(loop.lost))
    assert loop.lost[0][0] == 3


def test_a_long_configuration_goes_over_the_wire_whole(loop: Any, worker: socket.socket) -> None:
    text = "x" * 2_000_000
    assert loop.do(lambda: loop.control.tell(3, {"config": text}))
    stream = worker.makefile("rb")
    assert json.loads(stream.readline()) == {"config": text}
    stream.close()


def test_closing_leaves_nothing_in_the_selector(loop: Any, connect: Connect) -> None:
    connect()
    ours, theirs = socket.socketpair()
    loop.do(lambda: loop.control.attach(1, ours))
    loop.do(loop.control.close)
    assert len(loop.do(lambda: list(loop.selector.get_map()))) == 1  # the tests' own
    theirs.close()


def test_the_socket_can_be_handed_on(loop: Any, connect: Connect, place: Path) -> None:
    """As in an upgrade: the new server goes on at the path, and it stays."""
    listener = loop.control.listener.dup()
    loop.do(loop.control.close)
    assert place.exists()
    control = Control(loop.selector, lambda level, text: None)
    control.verbs["who"] = lambda message, reply: reply({"ok": True, "who": "new"})
    loop.do(lambda: control.adopt(listener))
    client = connect()
    assert client.ask(verb="who") == {"ok": True, "who": "new"}
    loop.do(control.close)
    assert not place.exists()
