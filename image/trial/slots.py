"""Other systems than the one that was built: a later one, and two that are broken.

They are the built one with a file changed. squashfs-tools can write a file system out as a
"pseudo file", a list of what is in it and then all contents, and read that back, owners and
devices included, without being root.
"""

import re
from pathlib import Path

from trial.failure import Failed, run

START = b"# START OF DATA - DO NOT MODIFY\n#\n"


class Unpacked:
    """A system as a pseudo file."""

    def __init__(self, system: Path, where: Path) -> None:
        self.system, self.where = system, where
        self.pseudo = where / "system.pseudo"
        run("unsquashfs", "-quiet", "-no-progress", "-pf", self.pseudo, system)

    def change(self, name: str, new: bytes) -> bytes:
        """Puts a file's content in place of the old, which it gives back: as long as that."""
        with self.pseudo.open("r+b") as file:
            head = b""
            while START not in head:
                more = file.read(1 << 20)
                if not more:
                    raise Failed(f"{self.pseudo}: no data in it")
                head += more
            listed = head[: head.index(START)]
            # name R time mode uid gid length offset, and of later squashfs-tools: sparse
            entry = re.search(
                rb"^/?%s R (?:\S+ ){4}(\d+) (\d+)(?: \d+)?$" % re.escape(name.encode()),
                listed,
                re.M,
            )
            if entry is None:
                raise Failed(f"{name} is not in {self.system}")
            length, offset = int(entry[1]), int(entry[2])
            at = head.index(START) + len(START) + offset
            file.seek(at)
            old = file.read(length)
            if new:
                file.seek(at)
                file.write(new.ljust(length)[:length])
        return old

    def pack(self, name: str) -> Path:
        """A slot of what is unpacked, compressed in haste."""
        path = self.where / f"{name}.slot"
        path.unlink(missing_ok=True)
        empty = self.where / "empty"
        empty.mkdir(exist_ok=True)
        run("mksquashfs", empty, path, "-pf", self.pseudo, "-comp", "gzip",
            "-Xcompression-level", "1", "-quiet", "-no-progress", "-no-exports",
            "-action", "uncompressed@subpathname(boot)")  # fmt: skip
        return path


def without_system(system: Path, where: Path) -> Path:
    """A kernel that finds nothing to start."""
    tree = where / "tree"
    run("unsquashfs", "-quiet", "-no-progress", "-d", tree, system, "boot")
    broken = where / "broken.slot"
    run("mksquashfs", tree, broken, "-comp", "gzip", "-Xcompression-level", "1", "-quiet",
        "-no-progress", "-noappend", "-action", "uncompressed@subpathname(boot)")  # fmt: skip
    return broken
