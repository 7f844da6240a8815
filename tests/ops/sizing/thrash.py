"""Waits for memory: reads a file over and over in less RAM than it takes.

python thrash.py FILE SECONDS        in a control group with a limit far below FILE's size
"""

from __future__ import annotations

import mmap
import sys
import time


def main(path: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as octets:
        octets.madvise(mmap.MADV_RANDOM)
        while time.monotonic() < end:
            for at in range(0, len(octets), mmap.PAGESIZE):
                octets[at]


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
