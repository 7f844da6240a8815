"""Two network namespaces with a gigabit of wire between them, and nothing beyond.

A veth pair joins them; it never exists outside. The server's end is shaped with a token
bucket (tc-tbf(8)): `rate 1gbit` is the link. `burst 128kb` is what the bucket holds: two of
the largest packets that TCP hands down at a time (64 kB), and one millisecond of the link, so
that neither packet size nor a timer's delay costs any of the rate. `latency 5ms` is the queue, some
600 kB, like a switch port's: it outlasts a server that is off its CPU for a moment, and is
too short to hide memory in.

Needs root, ip, tc and ss. One run at a time; whoever runs removes what a killed one left.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAME = "edgebox-gigabit"
TOOLS = ("ip", "tc", "ss")
DEVICE = "wire"  # at both ends
SERVER_ADDRESS, CLIENT_ADDRESS = "192.0.2.1", "192.0.2.2"  # TEST-NET-1, RFC 5737
RATE = 125_000_000  # octets a second: a gigabit, Ethernet's headers included
SHAPE = ("tbf", "rate", "1gbit", "burst", "128kb", "latency", "5ms")
NAMESPACES = Path("/run/netns")  # ip-netns(8)
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_CLONE_NEWNET = 0x40000000  # sched.h
_setns = ctypes.CDLL(None, use_errno=True).setns


class NoNetwork(Exception):
    """The namespaces cannot be made here, or are in use; says why."""


@dataclass(frozen=True)
class Network:
    """The names of the two namespaces."""

    server: str
    client: str


@dataclass(frozen=True)
class Wire:
    """What the shaper has counted: octets as they would be on Ethernet, and packets dropped.

    The device's own counters are no use here: they count the headers of a packet that TCP
    handed down in one piece once, and not for each of the up to 44 that it stands for.
    """

    octets: int
    drops: int


@contextlib.contextmanager
def network(name: str) -> Iterator[Network]:
    """The wire, until the block ends, however it ends. Raises NoNetwork."""
    with _alone(name):
        remove(name)
        try:
            yield _make(Network(f"{name}-server", f"{name}-client"))
        finally:
            with undisturbed():
                remove(name)


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    # A name in the abstract namespace (unix(7)) ends with its process and leaves no file.
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0{name}")
        except OSError as problem:
            raise NoNetwork(f"another run of {name} is under way") from problem
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that ask for an end wait until the block is through; children inherit that."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in ENDINGS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _make(made: Network) -> Network:
    try:
        for namespace in (made.server, made.client):
            _run("ip", "netns", "add", namespace)
        pair = ("type", "veth", "peer", "name", DEVICE, "netns", made.client)
        _run("ip", "link", "add", DEVICE, "netns", made.server, *pair)
        for namespace, address in (
            (made.server, SERVER_ADDRESS),
            (made.client, CLIENT_ADDRESS),
        ):
            _run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", DEVICE)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
            _run("ip", "-n", namespace, "link", "set", DEVICE, "up")
        _run("tc", "-n", made.server, "qdisc", "add", "dev", DEVICE, "root", *SHAPE)
    except (OSError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", "") or problem
        raise NoNetwork(f"cannot make the network: {str(said).strip()}") from problem
    return made


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


def leftovers(name: str) -> list[str]:
    """The namespaces of that name which exist."""
    ours = (f"{name}-server", f"{name}-client")
    return [namespace for namespace in ours if (NAMESPACES / namespace).exists()]


def inhabitants(namespace: str) -> list[int]:
    """The processes that run in `namespace`, this one apart."""
    try:
        found = map(int, _run("ip", "netns", "pids", namespace).split())
        return [process for process in found if process != os.getpid()]
    except subprocess.SubprocessError:  # what a run that was killed early left half made
        return []


def remove(name: str) -> None:
    """Kills what still runs in the namespaces of that name, and removes them."""
    for namespace in leftovers(name):
        for process in inhabitants(namespace):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(subprocess.SubprocessError):
            _run("ip", "netns", "delete", namespace)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread in `namespace`, with all that it opens and starts meanwhile: setns(2)."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(NAMESPACES / namespace, os.O_RDONLY)
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(descriptor: int) -> None:
    if _setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def steer(made: Network, server_core: int | None, client_core: int | None) -> None:
    """Has each end's packets received on its own side's core (RPS, scaling.rst).

    A packet on a veth would otherwise be received where it was sent, and the server's core
    would do the clients' work.
    """
    for namespace, core in ((made.server, server_core), (made.client, client_core)):
        if core is not None:
            queue = f"/sys/class/net/{DEVICE}/queues/rx-0/rps_cpus"
            # Through a shell of `ip netns exec`, which alone sees this namespace's /sys.
            _run("ip", "netns", "exec", namespace, "sh", "-c", f"echo {mask(core)} > {queue}")


def mask(core: int) -> str:
    """A kernel mask of one core: hexadecimal, in groups of 32 bits."""
    digits = f"{1 << core:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8) if len(digits) > 8 else digits
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def wire(made: Network) -> Wire:
    """What has passed so far from the server to the client."""
    said = _run("tc", "-n", made.server, "-s", "-j", "qdisc", "show", "dev", DEVICE)
    return read_wire(said)


def read_wire(text: str) -> Wire:
    """The same of `tc -s -j qdisc show`; ValueError if there is no shaper."""
    for queue in json.loads(text):
        if queue.get("kind") == SHAPE[0]:
            return Wire(queue["bytes"], queue["drops"])
    raise ValueError("no shaper on the wire")


def sockets(made: Network, port: int) -> str:
    """ss(8) with the memory of the server's connections: none of the clients' is among them."""
    words = ("-tnmH", "state", "established", f"sport = :{port}")
    return _run("ss", "-N", made.server, *words)


def facts(made: Network) -> dict[str, str]:
    """What of the kernel's TCP has a say in the figures, as the server's namespace has it."""
    names = {
        "congestion control": "tcp_congestion_control",
        "tcp_wmem": "tcp_wmem",
        "tcp_notsent_lowat": "tcp_notsent_lowat",
    }
    found = {
        title: " ".join(
            _run("ip", "netns", "exec", made.server, "cat", f"/proc/sys/net/ipv4/{key}").split()
        )
        for title, key in names.items()
    }
    return {"wire": f"veth, MTU 1500, {' '.join(SHAPE)}", **found}
