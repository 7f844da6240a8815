"""Changes a link in the namespace it is run in, and prints what a Live makes of it, as JSON.

Run by test_live, as root and in a namespace of its own, with which all of it ends.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import time
from collections.abc import Callable

from edgebox.config.schema import Config, Nic
from edgebox.ops.sizing import live
from edgebox.ops.sizing.live import Live
from edgebox.ops.sizing.sizing import Sized, subject
from edgebox.plan.gathering import gather_in_child

CONFIG = Config(nic=Nic(interface="va"))


def ip(command: str) -> None:
    words = command.split()
    subprocess.run(words if words[0] == "tc" else ["ip", *words], check=True)


def main() -> None:
    live.SETTLE = 0.3
    for command in (
        "link add va type veth peer name vb", "link set va up", "link set vb up",
        "tc qdisc add dev va root tbf rate 1gbit burst 128kb latency 5ms",
    ):  # fmt: skip
        ip(command)
    selector = selectors.DefaultSelector()
    lines: list[str] = []

    def on_plan(sized: Sized, line: str) -> None:
        lines.append(line)

    found = Live(selector, gather_in_child(subject(CONFIG)), CONFIG, on_plan)

    def run(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            for key, mask in selector.select(0.05):
                key.data(mask)
            found.turn()

    def looks() -> object:
        return found.statistics()["looks"]

    told: dict[str, object] = {}
    ip("tc qdisc change dev va root tbf rate 100mbit burst 128kb latency 5ms")
    run(20, lambda: len(lines) == 1)
    told["slower"] = list(lines)
    before = looks()
    for _ in range(4):
        ip("link set vb down")
        ip("link set vb up")
    run(2)
    told["flaps"] = list(lines[1:])
    told["looks at flaps"] = looks() - before  # type: ignore[operator]
    ip("tc qdisc del dev va root")
    run(3)
    told["speed gone"] = list(lines[1:])
    ip("link add other type veth peer name another")
    before = looks()
    run(1)
    told["looks at others"] = looks() - before  # type: ignore[operator]
    ip("tc qdisc add dev va root tbf rate 1gbit burst 128kb latency 5ms")
    run(20, lambda: len(lines) == 2)
    told["faster"] = list(lines[1:])
    found.close()
    told["left in the selector"] = len(selector.get_map())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
