"""What the supervisor has all workers do, and how their answers become one.

Each worker has its own RAM, its own view of upstreams, and its own clients: so a purge is done
when all have done it, a server is drained when all have drained it, and a log is that of all.
What stays in force is remembered for workers that come later. One that is just starting is
told, too, but not waited for: it holds nothing yet, and has a moment to hear before it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from edgebox.ops.control.control import Control, Reply
from edgebox.ops.control.jsonlines import Message, refusal

Answers = Mapping[int, Message]
NOBODY = refusal("no worker runs: see the error log for why, and `edgebox status`")


class Chorus:
    """Registers its verbs and events with `control`; is to be told when a worker is ready."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._drained: dict[tuple[str | None, str], None] = {}  # (pool, server)
        self._listeners: list[_Listener] = []
        control.verbs |= {
            "purge": self._pass_on(merge_counts),
            "ban": self._pass_on(merge_counts),
            "explain": self._pass_on(merge_explained),
            "upstream": self._upstream,
            "log": self._log,
        }
        control.events["purge"] = self._purge_elsewhere

    def ready(self, slot: int) -> None:
        """A worker serves from now on: what is in force for all is for it, too."""
        for pool, server in self._drained:
            message = {"verb": "upstream", "action": "drain", "server": server}
            self._control.tell(slot, message if pool is None else {**message, "pool": pool})
        for listener in self._listeners:
            listener.ask(slot)

    def _pass_on(self, merge: Callable[[Answers], Message]) -> Callable[[Message, Reply], None]:
        def verb(message: Message, reply: Reply) -> None:
            self._ask(self._control.serving, message, lambda answers: reply(merge(answers)))

        return verb

    def _ask(
        self, slots: list[int], message: Message, done: Callable[[dict[int, Message]], None]
    ) -> None:
        for slot in self._control.starting:
            self._control.tell(slot, message)
        self._control.ask_all(slots, message, done)

    def _upstream(self, message: Message, reply: Reply) -> None:
        def done(answers: Answers) -> None:
            merged = merge_servers(answers)
            if merged["ok"]:
                self._note_drained(message)
            reply(merged)

        self._ask(self._control.serving, message, done)

    def _note_drained(self, message: Message) -> None:
        pool, server = message.get("pool"), message.get("server")
        if message.get("action") == "drain" and isinstance(server, str):
            self._drained[pool, server] = None
        elif message.get("action") == "up":
            for key in [key for key in self._drained if key[1] == server]:
                if pool is None or key[0] in (None, pool):
                    del self._drained[key]

    def _purge_elsewhere(self, slot: int, message: Message) -> None:
        """A worker has got a PURGE from a client of its own."""
        others = [each for each in self._control.serving if each != slot]
        order = {"verb": "purge", "purges": message.get("purges", [])}

        def done(answers: Answers) -> None:
            merged = merge_counts(answers) if answers else {"ok": True}
            self._control.tell(slot, {**merged, "answered": message.get("ask")})

        self._ask(others, order, done)

    def _log(self, message: Message, reply: Reply) -> None:
        listener = _Listener(self._control, message, reply)
        self._listeners.append(listener)

        def end() -> None:
            listener.stop()
            self._listeners.remove(listener)

        reply.when_gone = end
        listener.when_done = end
        for slot in self._control.serving:
            listener.ask(slot)


class _Listener:
    """A client that listens to the log of all workers, those that come later too."""

    def __init__(self, control: Control, message: Message, reply: Reply) -> None:
        self._control = control
        self._message = message
        self._reply = reply
        self._asked: dict[int, int] = {}
        self._left_out = 0
        self.when_done: Callable[[], None] = lambda: None

    def ask(self, slot: int) -> None:
        def take(answer: Message) -> None:
            if answer.get("more"):
                self._pass_on(answer)
                return
            self._asked.pop(slot, None)
            if not answer.get("ok") and not answer.get("gone"):
                self._end(answer)  # a query that is none is so for all

        if slot in self._asked:
            return
        self._asked[slot] = 0
        number = self._control.ask(slot, self._message, take, patience=None)
        if slot in self._asked:
            self._asked[slot] = number

    def stop(self) -> None:
        for number in self._asked.values():
            self._control.stop(number)
        self._asked.clear()

    def _pass_on(self, answer: Message) -> None:
        """Lines for a client that reads late are left out, and it is told how many."""
        if self._reply.behind:
            self._left_out += len(answer.get("records", ())) + answer.get("left_out", 0)
            return
        left_out, self._left_out = self._left_out + answer.get("left_out", 0), 0
        self._reply({**answer, "left_out": left_out})

    def _end(self, answer: Message) -> None:
        if not self._reply.done:
            self._reply(answer)
            self.when_done()


def merge_counts(answers: Answers) -> Message:
    """One answer for all to a purge or a ban: it is done where all have done it.

    A worker that is gone has forgotten more than it was asked to.
    """
    failed = _failures(answers)
    count = sum(answer.get("purged", 0) for answer in answers.values())
    if not answers:
        return NOBODY
    if failed:
        done = sum(bool(answer.get("ok")) for answer in answers.values())
        if not done:
            return refusal(failed[0])
        return {**refusal(f"{failed[0]}; {done} other workers have done it"), "purged": count}
    return {"ok": True, "purged": count}


def merge_explained(answers: Answers) -> Message:
    """The answer of the worker that has most of the URL, and what the others have of it."""
    told = {slot: answer for slot, answer in answers.items() if answer.get("ok")}
    if not told:
        return refusal(_failures(answers)[0]) if _failures(answers) else NOBODY
    best = max(told, key=lambda slot: (told[slot].get("stored", 0), -slot))
    stored = {str(slot): answer.get("stored", 0) for slot, answer in told.items()}
    return {**told[best], "worker": best, "stored_by_worker": stored}


def merge_servers(answers: Answers) -> Message:
    """A row for each server: numbers added up, standings counted, the slowest view of its time."""
    if not answers:
        return NOBODY
    if failed := _failures(answers):
        return refusal(failed[0])
    rows: dict[tuple[str, str], Counter[str]] = {}
    standings: dict[tuple[str, str], Counter[str]] = {}
    slowest: dict[tuple[str, str], int] = {}
    for answer in answers.values():
        for server in answer.get("servers", ()):
            row = dict(server)
            key = row.pop("pool"), row.pop("server")
            standings.setdefault(key, Counter())[row.pop("standing")] += 1
            slowest[key] = max(slowest.get(key, 0), row.pop("head_us", 0))
            rows.setdefault(key, Counter()).update(row)
    servers = [
        {"pool": key[0], "server": key[1], "standings": dict(standings[key]), **numbers}
        | {"head_us": slowest[key]}
        for key, numbers in rows.items()
    ]
    return {"ok": True, "servers": servers}


def _failures(answers: Answers) -> list[str]:
    """What went wrong, but for workers that are gone."""
    return [
        str(answer.get("error"))
        for answer in answers.values()
        if not answer.get("ok") and not answer.get("gone")
    ]
