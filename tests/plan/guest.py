"""The first process of a user-mode Linux that has the kernel modules this machine lacks.

    linux.uml ... init=PYTHON -- guest.py OUT MODULES

Its root is the host's, read-only; OUT is the one directory that it writes in: the names of
scenes are in OUT/scenes, what `devices` says of them goes to OUT/facts and OUT/errors.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import traceback
from pathlib import Path

WANTED = ("veth", "bridge", "8021q", "bonding")
FINIT_MODULE = 313  # x86-64, the only machine for which Debian has user-mode Linux
POWER_OFF = 0x4321FEDC  # reboot(2)

libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: str, options: str = "") -> None:
    told = options.encode() or None
    if libc.mount(kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(0), told):
        raise OSError(ctypes.get_errno(), f"mounting {kind}")


def load(name: str, modules: Path) -> None:
    """Load a module after those it needs; what is there already stays."""
    lines = (line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
    needs = {module: rest.split() for module, rest in lines}
    module = next(path for path in needs if path.endswith(f"/{name}.ko"))
    for path in (*reversed(needs[module]), module):
        fd = os.open(modules / path, os.O_RDONLY)
        libc.syscall(FINIT_MODULE, fd, b"", 0)
        os.close(fd)


def main(out: str, modules: str) -> None:
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    mount("hostfs", "/mnt", out)
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    for name in WANTED:
        load(name, Path(modules))
    here, into = Path(__file__).parent, Path("/mnt")
    scenes = (into / "scenes").read_text().splitlines()
    with (into / "facts").open("w") as facts, (into / "errors").open("w") as errors:
        subprocess.run(
            [sys.executable, here / "devices.py", *scenes], stdout=facts, stderr=errors, check=False
        )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])  # the kernel adds words of its own
    except BaseException:
        traceback.print_exc()
    finally:
        # The first process must not end, or the kernel would panic: switch it off instead.
        libc.reboot(POWER_OFF)
