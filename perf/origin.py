"""The upstream of the proxied rows: origin.c, built, started, asked what it was asked, ended.

It runs wherever this process may, which is the load tool's core; its CPU time is nobody's.
Its count of requests is how a hit is told from an answer that only looks like one.
"""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perf.server import STOP_WITHIN, TAIL, ServerFailed, free_port

SOURCE = Path(__file__).with_name("origin.c")
COMPILER = "gcc"
READY_WITHIN = 5.0  # seconds
SETTLE = 0.25
SETTLED_WITHIN = 10.0


@dataclass(frozen=True)
class Slow:
    """What the origin takes `seconds` for: small answers to think of, `big` to send."""

    big: Path
    seconds: float


@contextlib.contextmanager
def running_origin(
    gcc: str, directory: Path, small: Path, slow: Slow | None = None
) -> Iterator[int]:
    """The port of an origin that answers with `small`; ServerFailed if it will not.

    `directory` is where the program goes.
    """
    program = directory / "origin"
    built = subprocess.run(
        [gcc, "-O2", "-o", str(program), str(SOURCE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if built.returncode:
        raise ServerFailed(f"the compiler said: {built.stderr[-TAIL:]}")
    port = free_port()
    arguments = [str(port), str(small)]
    if slow is not None:
        arguments += [str(slow.big), str(round(slow.seconds * 1000))]
    process = subprocess.Popen(
        [str(program), *arguments], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait_ready(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(STOP_WITHIN)


def _wait_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while True:
        if process.poll() is not None:
            raise ServerFailed(f"the origin ended with {process.returncode} at start")
        try:
            asked(port)
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ServerFailed(f"the origin is not ready: {error}") from error
        time.sleep(0.01)


def asked(port: int) -> int:
    """How many requests the origin has had so far, but for those that ask this."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/count")
        return int(connection.getresponse().read())
    finally:
        connection.close()


def asked_in_all(port: int) -> int:
    """The same once it grows no more: what clients gave up may still be on its way."""
    deadline = time.monotonic() + SETTLED_WITHIN
    seen, now = -1, asked(port)
    while now != seen and time.monotonic() < deadline:
        time.sleep(SETTLE)
        seen, now = now, asked(port)
    return now


def judge_hits(reached: int) -> str:
    """What is wrong if `reached` requests of a load of hits went to the origin; "" if nothing."""
    return f"no hits: {reached} requests went to the upstream" if reached else ""


def judge_misses(reached: int, requests: int, connections: int) -> str:
    """What is wrong if `reached` of a load's `requests` misses went to the origin; "" if nothing.

    A load tool gives up what is under way at its end, a request a connection, uncounted.
    """
    if requests <= reached <= requests + connections:
        return ""
    return f"{reached} requests went to the upstream, not {requests}"
