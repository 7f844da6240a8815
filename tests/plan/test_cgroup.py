"""Promises about control groups: the limit that binds is found, in either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebox.plan.cgroup import Limits, limits

MIB = 1024**2


class Tree:
    """A /proc and a /sys/fs/cgroup of files."""

    def __init__(self, base: Path) -> None:
        self.proc, self.groups = base / "proc", base / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.groups.mkdir()
        self.mounts: list[str] = []

    def mount(self, point: str, kind: str, options: str, root: str = "/") -> None:
        place = self.groups / point
        place.mkdir(parents=True, exist_ok=True)
        self.mounts.append(
            f"31 23 0:28 {root} {place} rw,relatime shared:9 - {kind} {kind} {options}"
        )
        (self.proc / "self/mountinfo").write_text("\n".join(self.mounts) + "\n")

    def member(self, text: str) -> None:
        (self.proc / "self/cgroup").write_text(text)

    def write(self, group: str, **files: str) -> None:
        directory = self.groups / group
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_smallest_limit_on_the_way_up_binds_in_version_2(tree: Tree) -> None:
    tree.mount("", "cgroup2", "rw")
    tree.member("0::/system.slice/edgebox.service\n")
    tree.write(
        "system.slice/edgebox.service",
        memory__max=str(512 * MIB),
        memory__current="999",
        cpu__max="200000 100000",
    )
    tree.write(
        "system.slice",
        memory__max=str(256 * MIB),
        memory__high="max",
        memory__current=str(100 * MIB),
        memory__stat=f"anon 5\ninactive_file {30 * MIB}\nactive_file {20 * MIB}\nshmem 1",
        cpu__max="50000 100000",
    )
    assert limits(tree.proc) == Limits(256 * MIB, 50 * MIB, 0.5)


def test_memory_high_binds_as_much_as_memory_max(tree: Tree) -> None:
    tree.mount("", "cgroup2", "rw")
    tree.member("0::/a\n")
    tree.write("a", memory__max=str(512 * MIB), memory__high=str(400 * MIB))
    assert limits(tree.proc).memory == 400 * MIB


def test_max_is_no_limit(tree: Tree) -> None:
    tree.mount("", "cgroup2", "rw")
    tree.member("0::/a\n")
    tree.write("a", memory__max="max", cpu__max="max 100000")
    assert limits(tree.proc) == Limits()


def test_version_1_is_read_from_each_controller_s_own_hierarchy(tree: Tree) -> None:
    tree.mount("memory", "cgroup", "rw,memory")
    tree.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    tree.mount("unified", "cgroup2", "rw")
    tree.member("5:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/x\n0::/\n")
    tree.write(
        "memory/box",
        memory__limit_in_bytes=str(128 * MIB),
        memory__usage_in_bytes=str(64 * MIB),
        memory__stat=f"inactive_file 1\ntotal_inactive_file {10 * MIB}\ntotal_active_file 0",
    )
    tree.write("cpu,cpuacct/box", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
    assert limits(tree.proc) == Limits(128 * MIB, 54 * MIB, 1.5)


def test_version_1_s_unlimited_is_no_limit(tree: Tree) -> None:
    tree.mount("memory", "cgroup", "rw,memory")
    tree.member("5:memory:/\n")
    tree.write("memory", memory__limit_in_bytes="9223372036854771712")
    tree.mount("cpu", "cgroup", "rw,cpu")
    tree.member("5:memory:/\n3:cpu:/\n")
    tree.write("cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert limits(tree.proc) == Limits()


def test_in_a_container_paths_count_from_the_root_that_is_mounted(tree: Tree) -> None:
    tree.mount("memory", "cgroup", "rw,memory", root="/docker/abc")
    tree.member("5:memory:/docker/abc\n")
    tree.write("memory", memory__limit_in_bytes=str(512 * MIB))
    assert limits(tree.proc).memory == 512 * MIB


def test_a_group_outside_what_is_mounted_is_looked_for_at_its_root(tree: Tree) -> None:
    tree.mount("", "cgroup2", "rw", root="/docker/abc")
    tree.member("0::/elsewhere\n")
    tree.write("", memory__max=str(512 * MIB))
    assert limits(tree.proc).memory == 512 * MIB


def test_without_control_groups_nothing_is_known(tree: Tree) -> None:
    assert limits(tree.proc) == Limits()


def test_use_below_what_can_be_dropped_counts_as_none(tree: Tree) -> None:
    tree.mount("", "cgroup2", "rw")
    tree.member("0::/\n")
    tree.write("", memory__max="1000", memory__current="10", memory__stat="active_file 20")
    assert limits(tree.proc).memory_used == 0
