"""Steps: a new system is tried in the other slot, kept when it serves, left when it does not."""

import re
import time

from trial.bench import SLOT, Bench
from trial.failure import PATIENCE, Failed
from trial.slots import Unpacked, without_system

GOOD = re.compile(rb"it is the good one now")
VERSION = "etc/appliance-version"


def next_version(unpacked: Unpacked) -> str:
    """Gives the unpacked system another version, as long as the one before."""
    version = unpacked.change(VERSION, b"").decode().strip()
    version = version[:-1] + chr(ord("0") + (ord(version[-1]) - ord("0") + 1) % 10)
    unpacked.change(VERSION, f"{version}\n".encode())
    return version


def upgrade(bench: Bench) -> None:
    """A later build that a seed brings is tried in the other slot, and kept when it serves."""
    _, before = bench.slot()
    unpacked = Unpacked(bench.system, bench.where)
    version = next_version(unpacked)
    since = bench.machine.insert(bench.seed("upgrade", {"edgebox.slot": unpacked.pack("later")}))
    told = wait_for_trial(bench, since)
    if told[0] != version or told[1] == before:
        raise Failed(f"it runs {told}")
    bench.wait_for_site()


def wait_for_trial(bench: Bench, since: int) -> tuple[str, str]:
    bench.machine.wait(GOOD, 2 * PATIENCE, since)
    version, slot = SLOT.findall(bytes(bench.machine.console), since)[-1]
    return version.decode(), slot.decode()


def broken_upgrade(bench: Bench) -> None:
    """A system that does not start is tried three times; then the one before serves again."""
    broken = without_system(bench.system, bench.where)
    good = bench.slot()[1]
    bench.inside("appliance upgrade -", broken)
    fall_back(bench, good, PATIENCE * 3)


def silent_upgrade(bench: Bench) -> None:
    """A system that starts and does not serve is left, too."""
    good = bench.slot()[1]
    unpacked = Unpacked(bench.system, bench.where)
    unpacked.change("usr/bin/edgebox", b"#!/bin/false\n")
    bench.inside("appliance upgrade -", unpacked.pack("silent"))
    fall_back(bench, good, PATIENCE * 6)


def fall_back(bench: Bench, good: str, seconds: float) -> None:
    machine = bench.machine
    since, began = len(machine.console), time.monotonic()
    bench.ssh("systemctl reboot")
    back = re.compile(rb"did not come up; back in " + good.encode())
    machine.wait(back, seconds, since)
    print(f"  three attempts in vain, back in slot {good} after "
          f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    if bench.slot(since)[1] != good:
        raise Failed(f"it runs {bench.slot(since)}")
    bench.wait_for_site()


def update(bench: Bench) -> None:
    """Unattended: a signed build that appears at the owner's address is fetched, checked, tried."""
    later = Unpacked(bench.system, bench.where)
    version = next_version(later)
    system = later.pack("update")
    bench.origin.files["/edgebox.slot"] = system
    bench.origin.files["/edgebox.slot.sig"] = bench.stranger.sign(system)
    bench.machine.insert(bench.seed("update", {"update.toml": (
        f'url = "http://10.0.2.2:{bench.origin.port}/edgebox.slot"\n'
        f'key = "{bench.key.public.decode().strip()}"\n').encode()}))  # fmt: skip
    bench.machine.wait(re.compile(rb"seed: applied: update.toml"))
    timer = "systemctl list-timers --plain --no-legend appliance-update.timer"
    if "appliance-update.service" not in bench.inside(timer):
        raise Failed("it is not planned")
    before = bench.slot()
    done = bench.ssh("systemctl start appliance-update")
    if not done.returncode or "signature" not in bench.inside("journalctl -u appliance-update"):
        raise Failed("a stranger's build is taken")
    bench.origin.files["/edgebox.slot.sig"] = bench.key.sign(system)
    since = len(bench.machine.console)
    bench.ssh("systemctl start appliance-update")
    told = wait_for_trial(bench, since)
    if told[0] != version or told[1] == before[1]:
        raise Failed(f"it runs {told}, before {before}")
    bench.wait_for_site()
