"""A control socket that answers what a test says, and edgebox's verbs run against it."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgebox.cli.main import main
from edgebox.ops.control.control import Control, Reply
from edgebox.ops.control.jsonlines import Message, refusal


class Served:
    """`answers` by verb: an answer, or a list of pieces; `heard` is what was asked."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.answers: dict[str, Message | list[Message]] = {}
        self.heard: list[Message] = []
        self._selector = selectors.DefaultSelector()
        self._control = Control(self._selector, lambda level, text: None)
        for verb in ("status", "stats", "reload", "upgrade", "purge", "ban", "explain",
                     "upstream", "log"):  # fmt: skip
            self._control.verbs[verb] = self._answer
        self._control.listen(str(place), 0o600)
        self._end, self._ended = socket.socketpair()
        self._selector.register(self._ended, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def run(self, *arguments: str) -> Result:
        """A verb, told where this socket is."""
        verb, *rest = arguments
        at = ["--socket", str(self.place)]
        words = [verb, *rest[:1], *at, *rest[1:]] if verb == "upstream" else [verb, *at, *rest]
        return CliRunner().invoke(main, words)

    def stop(self) -> None:
        self._end.send(b"x")
        self._thread.join(10)
        self._control.close()
        self._selector.close()
        self._end.close()
        self._ended.close()

    def _answer(self, message: Message, reply: Reply) -> None:
        self.heard.append(message)
        answer = self.answers.get(message["verb"], refusal("not now"))
        for piece in answer if isinstance(answer, list) else [answer]:
            reply(piece)

    def _run(self) -> None:
        while True:
            for key, mask in self._selector.select():
                if key.data is None:
                    return
                key.data(mask)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "control.sock")
    yield made
    made.stop()


@pytest.fixture
def told() -> Callable[..., dict[str, Any]]:
    """told(gauges={"tasks": 3}, …): an answer to `status`, of a box with a little of everything."""

    def make(**changes: dict[str, Any]) -> dict[str, Any]:
        rates = dict.fromkeys(
            ("requests", "express", "octets", "accepted", "4xx", "5xx", "hit", "miss", "stale",
             "file", "hit_octets", "miss_octets", "stale_octets", "file_octets",
             "upstream_requests", "upstream_failures"), 0.0,
        )  # fmt: skip
        latency = {"count": 10, "mean": 0.001, "p50": 0.001, "p90": 0.0, "p95": 0.02, "p99": 1.5}
        answer: dict[str, Any] = {
            "ok": True,
            "time": 1_000_000,
            "version": "9.9",
            "uptime": 90_000,
            "totals": dict.fromkeys(rates, 0) | {"hit": 75, "miss": 25, "log_lines_dropped": 0},
            "gauges": {
                "connections": 12, "idle": 10, "tasks": 2, "connections_limit": 1000,
                "ram_held": 64 * 2**20, "ram_budget": 256 * 2**20, "ram_objects": 1234,
                "upstream_active": 1, "upstream_idle": 2, "disk_held": 0, "disk_limit": 0,
                "lag_us": 500,
            },
            "rates": rates | {"requests": 1200.0, "express": 900.0, "octets": 59_000_000.0,
                              "hit": 90.0, "miss": 10.0, "hit_octets": 3.0, "miss_octets": 1.0},
            "curves": {"requests": [1.0, 2.0, 3.0], "octets": [0.0, 59e6, 118e6]},
            "latency": {kind: {"first": latency, "total": latency} for kind in ("all", "hit")},
            "workers": [
                {"slot": slot, "pid": 100 + slot, "generation": 2, "uptime": 60, "requests": 5,
                 "connections": 6, "ram": 1024, "lag_ms": 0.5, "draining": slot == 2}
                for slot in range(3)
            ],
            "sheet": {
                "hot": [["example.com/a", 600, 6000], ["example.com/\x1b[2Jb", 900, 900]],
                "ram": [{"site": "*", "type": "text/html", "objects": 3, "octets": 4096}],
                "upstreams": [
                    {"pool": "app", "server": "http://a:1", "standing": "up", "active": 3,
                     "idle": 1, "connections": 4, "reused": 9, "answered": 99, "failed": 0,
                     "ejected": 0, "head_us": 1500},
                    {"pool": "app", "server": "http://b:1", "standing": "down", "active": 0,
                     "idle": 0, "connections": 4, "reused": 9, "answered": 9, "failed": 7,
                     "ejected": 1},
                ],
                "errors": [[999_940, "warning", "upstream http://b:1 is down"]],
                "what_if": [],
                "ledger": {},
            },
            "board": {"plan": {"goodput": 118_000_000, "interface": "eth0"}},
            "silent": {"0": 0.5},
            "supervisor": {"addresses": ["http://127.0.0.1:8080/"]},
        }  # fmt: skip
        for table, keys in changes.items():
            answer[table] = answer[table] | keys
        return answer

    return make
