"""The order of the steps, and what a run says.

Steps go from one boot to the next, in the order in which an owner meets them; one that fails does
not end the run, unless it is the boot that those after it need. The first step of each act is that
boot.
"""

import argparse
import http.client
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from trial import bringing, inside, lasting, platforms, serving, upgrading
from trial.bench import Bench, Extent
from trial.failure import Failed

Step = Callable[[Bench], None]
ACTS: tuple[tuple[Step, ...], ...] = (
    (
        serving.first_boot, serving.console, serving.upstream, serving.status, serving.ssh,
        serving.firewall, inside.plan, inside.memory, inside.disk_layout, inside.time_sync,
        inside.passwords, serving.new_seed, serving.bad_seed, lasting.reboot, lasting.growth,
        lasting.power_cuts, upgrading.upgrade, upgrading.broken_upgrade, upgrading.silent_upgrade,
        upgrading.update,
    ),
    (bringing.uefi, bringing.static_address, bringing.credentials, bringing.no_key),
    (platforms.platforms,),
)  # fmt: skip
LONG = (upgrading.silent_upgrade, platforms.platforms)  # with --everything
TROUBLE = (
    Failed, OSError, ValueError, KeyError, http.client.HTTPException, subprocess.SubprocessError
)  # fmt: skip


def chosen(act: tuple[Step, ...], words: list[str], everything: bool) -> list[Step]:
    """The act's steps of these names, and its boot before them."""
    if words:
        named = [step for step in act if step.__name__ in words]
        return [act[0], *(step for step in named if step is not act[0])] if named else []
    return [step for step in act if everything or step not in LONG]


class Tally:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []

    def take(self, step: Step, bench: Bench) -> bool:
        name, began = step.__name__, time.monotonic()
        print(f"{name}: {(step.__doc__ or '').splitlines()[0]}", flush=True)
        try:
            step(bench)
        except TROUBLE as error:
            self.failed.append(name)
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            print(f"  FAILED: {where}: {type(error).__name__}: {error}", flush=True)
        else:
            self.passed += 1
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
        return name not in self.failed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="image/test",
        description="Boots the appliance and proves what docs/appliance.md promises.",
    )
    parser.add_argument("--build", type=Path, default=Path(__file__).parents[2] / "build")
    parser.add_argument("--cuts", type=int, default=5, help="how often the power goes")
    parser.add_argument("--firmware", choices=("bios", "uefi"), default="bios")
    parser.add_argument("--only", default="", help="steps of these names, by commas")
    parser.add_argument("--everything", action="store_true", help="also what takes minutes")
    parser.add_argument(
        "--busy-host", action="store_true", help="slower, by UEFI; keeps the box's deadlines"
    )
    parser.add_argument("--keep", action="store_true", help="leave disk and console there")
    told = parser.parse_args()
    firmware = "uefi" if told.busy_host else told.firmware
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that nothing is left
    where = Path(tempfile.mkdtemp(prefix="image-test-"))
    words = [word for word in told.only.split(",") if word]
    tally = Tally()
    bench = None
    try:
        bench = Bench(
            Extent(told.build, told.cuts, told.everything, firmware, told.busy_host), where
        )
        for act in ACTS:
            steps = chosen(act, words, told.everything)
            for step in steps:
                if not tally.take(step, bench) and step is act[0]:
                    break
    finally:
        if bench is not None:
            bench.stop()
        if told.keep or tally.failed:
            print(f"the disks, and all that the consoles said: {where}")
        else:
            shutil.rmtree(where)
    boots = ", ".join(f"{seconds:.0f}" for seconds in bench.boots)
    print(f"boots, seconds from power on to the ready line: {boots}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {time.monotonic() - began:.0f} s")
    sys.exit(", ".join(tally.failed) or 0)
