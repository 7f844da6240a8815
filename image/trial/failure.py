"""What a step raises, and waiting with a deadline: all that every other module here needs."""

import os
import subprocess
import time
from collections.abc import Callable

# Seconds for a boot, under emulation on a machine that does other things, too.
PATIENCE = float(os.environ.get("EDGEBOX_IMAGE_PATIENCE", "600"))


class Failed(Exception):
    """A promise was not kept."""


def run(*command: object) -> bytes:
    """Runs a tool that has to succeed; what it says is in the failure, if it does not."""
    done = subprocess.run([str(word) for word in command], capture_output=True)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise Failed(f"{command[0]} ends with {done.returncode}: {said.strip()[-600:]}")
    return done.stdout


def wait_until(wanted: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not wanted():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.5)
