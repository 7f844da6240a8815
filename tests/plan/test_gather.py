"""Promises of gathering: what the kernel says is written down, and nothing is changed."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from edgebox.plan.facts import Facts
from edgebox.plan.gather import Subject, gather

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    root = tmp_path_factory.mktemp("root")
    (root / "index.html").write_bytes(b"hello")
    return gather(
        Subject(listen=("127.0.0.1:8080",), roots=(str(root),), cache=str(root / "cache"))
    )


def sysctl(name: str) -> list[int]:
    return [int(word) for word in Path("/proc/sys", name).read_text().split()]


def test_limits_are_the_process_s_own(here: Facts) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (here.descriptors.soft, here.descriptors.hard) == (soft, hard)
    assert here.processor.allowed == len(os.sched_getaffinity(0))
    assert here.processor.cores == os.cpu_count()


def test_memory_is_what_the_kernel_counts(here: Facts) -> None:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert here.memory.total == pages
    assert 0 < (here.memory.available or 0) <= pages


def test_settings_are_those_of_proc_sys(here: Facts) -> None:
    network = here.network
    assert [network.somaxconn] == sysctl("net/core/somaxconn")
    assert list(network.tcp_wmem or ()) == sysctl("net/ipv4/tcp_wmem")
    assert list(network.tcp_mem or ()) == sysctl("net/ipv4/tcp_mem")
    assert list(network.port_range or ()) == sysctl("net/ipv4/ip_local_port_range")
    assert [here.inotify.watches] == sysctl("fs/inotify/max_user_watches")
    assert network.congestion_control in (network.congestion_controls or ())


def test_root_and_cache_are_looked_at_and_the_root_is_counted(here: Facts) -> None:
    assert [found.use for found in here.disks] == ["root", "cache"]
    (counted,) = here.content
    assert (counted.files, counted.directories, counted.size) == (1, 1, 5)
