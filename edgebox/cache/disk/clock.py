"""The two clocks and the boot that the steady one belongs to.

CLOCK_BOOTTIME begins anew with each boot, so what is written to disk in its terms carries the
boot's id; it counts on while the machine is suspended, as ages must. Whoever makes an Instant
for what the disk store is given must use these.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from edgebox.cache.answer import Instant


def now() -> Instant:
    return Instant(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))


def boot_id() -> bytes:
    """16 octets that no other boot of any machine has (proc(5), random/boot_id)."""
    return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
