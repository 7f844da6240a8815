"""Promises of the look at interfaces without netlink: as much as sysfs and ioctls tell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from edgebox.plan.gather import Subject, gather
from edgebox.plan.link import Interfaces
from edgebox.plan.sysfs import SystemInterfaces

pytestmark = pytest.mark.slow

LOOK = """
import json
from edgebox.plan.facts import encode
from edgebox.plan.gather import Subject, gather
def told(**subject):
    network = gather(Subject(**subject), netlink=False).network
    return [network.interface, network.via, [(l.name, l.kind, l.up, l.mtu, l.lower, l.speed)
                                             for l in network.links]]
print(json.dumps({
    "veth": told(interface="va"), "bridge": told(interface="br0"), "none": told(interface="x"),
    "address": told(listen=("192.0.2.7:80",)), "address 6": told(listen=("[2001:db8::7]:80",)),
    "route": told(),
}))
"""

COMMANDS = """
ip link set lo up
ip link add va type veth peer name vb
ip link set va mtu 1400 up
ip link set vb up
ip link add br0 type bridge
ip link add ba type veth peer name bb
ip link set ba master br0
ip addr add 192.0.2.7/24 dev va
ip addr add 2001:db8::7/64 dev va nodad
ip route add default via 192.0.2.1
"""


@pytest.fixture(scope="module")
def told() -> dict[str, list[object]]:
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("needs root and ip: apt-get install iproute2")
    name = f"edgebox-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for command in COMMANDS.strip().splitlines():
            subprocess.run(["ip", "netns", "exec", name, *command.split()], check=True)
        done = subprocess.run(
            ["ip", "netns", "exec", name, sys.executable, "-c", LOOK],
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def test_a_veth_is_known_for_one_and_tells_no_speed(told: dict[str, list[object]]) -> None:
    assert told["veth"] == ["va", "nic.interface", [["va", "veth", True, 1400, [], None]]]


def test_a_bridge_lies_on_its_ports(told: dict[str, list[object]]) -> None:
    links = told["bridge"][2]
    assert isinstance(links, list)
    assert [link[:2] for link in links] == [["br0", "bridge"], ["ba", "veth"]]
    assert links[0][4] == ["ba"]


def test_the_interface_is_found_by_address_and_by_route(told: dict[str, list[object]]) -> None:
    assert told["address"][:2] == ["va", "listen address"]
    assert told["address 6"][:2] == ["va", "listen address"]
    assert told["route"][:2] == ["va", "default route"]
    assert told["none"] == [None, None, []]


def test_it_agrees_with_netlink_on_this_machine() -> None:
    with Interfaces() as interfaces:
        found, other = SystemInterfaces(), interfaces
        assert found.default() == other.default()
        for index in filter(None, [found.named("lo"), found.default()]):
            for mine, theirs in zip(found.chain(index), other.chain(index), strict=True):
                assert (mine.name, mine.kind, mine.driver, mine.mtu, mine.up, mine.speed) == (
                    theirs.name, theirs.kind, theirs.driver, theirs.mtu, theirs.up, theirs.speed
                )  # fmt: skip


def test_it_needs_no_library_and_what_it_cannot_know_is_unknown() -> None:
    code = (
        "import sys; from edgebox.plan.gather import *;"
        "facts = gather(Subject(interface='lo'), netlink=False);"
        "print('pyroute2' in sys.modules, facts.network.links[0].rx_ring)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "None"]
    assert gather(Subject(interface="lo"), netlink=False).network.interface == "lo"
