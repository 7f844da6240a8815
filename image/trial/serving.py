"""Steps: a new box serves what its owner's seed says, and only that."""

import json
import re
import socket
import time

from trial.bench import READY, Bench
from trial.failure import Failed, wait_until
from trial.machine import Machine
from trial.seed import connect

KEPT = "/app/kept"
CLOSED = 8081


def first_boot(bench: Bench) -> None:
    """A new disk and a seed make a box that serves its owner's site, with no one at its console."""
    seed = bench.seed(
        "first",
        {
            **bench.site(b"first site\n", "one", deep=b"deep\n"),
            "meta-data": b"instance-id: one\nlocal-hostname: edge-one\n",
        },
    )
    machine = bench.boot(seed)
    bench.wait_for_site()
    answered = time.monotonic() - machine.began
    found = machine.wait(READY)
    print(f"  boot to first answer: {answered:.1f} s from power on ({bench.accel[1]}), ready "
          f"{found[2].decode()} s after the kernel's start", flush=True)  # fmt: skip
    if machine.body("/deep") != b"deep\n":
        raise Failed("a second file is not served")


def console(bench: Bench) -> None:
    """The console shows name, slot, health, address, link speed and plan, without login."""
    machine = bench.machine
    for wanted in (rb"edgebox \S+ on edge-one, slot a: all is well", rb"10\.0\.2\.15/24",
                   rb"1 Gbit/s", rb"First to run out: "):  # fmt: skip
        machine.wait(re.compile(rb"appliance: [^\r\n]*" + wanted))
    if re.search(rb"login:", bytes(machine.console)):
        raise Failed("it asks who is there")


def upstream(bench: Bench) -> None:
    """Each worker asks for an upstream's answer once at most, then it comes from the cache."""
    fields: dict[str, str] = {}
    for _ in range(6):
        status, fields, body = bench.machine.get(KEPT)
        if status != 200 or not body.startswith(KEPT.encode()):
            raise Failed(f"{status} {body[:80]!r}")
        time.sleep(0.5)
    if bench.origin.asked[KEPT] > 2 or "hit" not in fields.get("cache-status", ""):
        raise Failed(f"asked {bench.origin.asked[KEPT]} times; {fields}")


def status(bench: Bench) -> None:
    """The status page tells programs how the box is doing."""
    code, _, body = bench.machine.get("/?json", port=9180)
    if code != 200 or not json.loads(body):
        raise Failed(f"{code} {body[:200]!r}")


def greeting(machine: Machine) -> bytes:
    """What SSH says first, b"" where nobody is let in."""
    try:
        with socket.create_connection(("127.0.0.1", machine.ports[22]), 10) as wire:
            wire.settimeout(10)
            return wire.recv(64)
    except OSError:
        return b""


def ssh(bench: Bench) -> None:
    """SSH lets in who has the seed's key: no other key, and no password."""
    wait_until(lambda: greeting(bench.machine).startswith(b"SSH-"), "SSH")
    if bench.inside("id -u").strip() != "0":
        raise Failed("the key does not let root in")
    port = bench.machine.ports[22]
    for who, key in (("another key", bench.stranger), ("no key", None)):
        done = connect(port, key, "true")
        said = done.stderr.decode(errors="replace")
        if not done.returncode or "Permission denied (publickey)." not in said:
            raise Failed(f"{who}: {done.returncode}: {said}")
    if "all is well" not in bench.inside("cat /run/motd.d/appliance"):
        raise Failed("the message of the day does not say how it is doing")


def firewall(bench: Bench) -> None:
    """No port is open but what is served, whatever listens."""
    # From 1024 on, so that nothing but the firewall can be the reason.
    bench.inside(f"systemd-run --quiet --unit listener python3.11 -m http.server {CLOSED}")
    local = (
        f'i=0; until python3.11 -c \'import socket; socket.create_connection(("127.0.0.1", '
        f"{CLOSED}))'; do i=$((i+1)); [ $i -lt 60 ] || exit 1; sleep 1; done 2> /dev/null"
    )
    bench.inside(local)
    if bench.machine.body("/", port=CLOSED, seconds=10):
        raise Failed(f"port {CLOSED} answers")
    bench.inside("systemctl stop listener")
    rules = bench.inside("nft list ruleset")
    opened = re.search(r"elements = \{ ([^}]*) \}", rules)
    if "policy drop" not in rules or not opened or opened[1].split(", ") != ["22", "80", "9180"]:
        raise Failed(rules)


def new_seed(bench: Bench) -> None:
    """A seed put in while the box runs changes site and configuration, by a reload."""
    pid = bench.inside("systemctl show -P MainPID edgebox")
    since = bench.machine.insert(bench.seed("second", bench.site(b"second site\n", "two")))
    bench.wait_for_site()
    if bench.inside("systemctl show -P MainPID edgebox") != pid:
        raise Failed("it was restarted, not reloaded")
    if b"not applied" in bytes(bench.machine.console[since:]):
        raise Failed("the seed was not applied")
    if bench.machine.body("/deep"):
        raise Failed("a file of the old site is served")


def bad_seed(bench: Bench) -> None:
    """A configuration that edgebox would not start with is not taken."""
    since = bench.machine.insert(
        bench.seed("bad", {"edgebox.toml": b"[server]\nnonsense = true\n"})
    )
    bench.machine.wait(re.compile(rb"not taken"), since=since)
    bench.machine.wait(re.compile(rb"seed: applied"), since=since)
    bench.wait_for_site()
