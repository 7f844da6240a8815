"""Makes network devices in the namespace it is run in, and prints what is gathered of each.

    python devices.py SCENE...         prints {"SCENE": {facts}, ...}

Run by test_link, as root and in a namespace of its own: nothing is cleaned up here, for the
devices end with the namespace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from edgebox.plan.facts import encode
from edgebox.plan.gather import Subject, gather

SCENES: dict[str, tuple[list[str], Subject]] = {
    "veth": (
        ["link add va type veth peer name vb", "link set va mtu 1400 txqueuelen 500",
         "link set va up", "link set vb up"],
        Subject(interface="va"),
    ),
    "half a veth": (
        ["link add ha type veth peer name hb", "link set ha up"],
        Subject(interface="ha"),
    ),
    "shaped": (
        ["link add sa type veth peer name sb", "link set sa up",
         "tc qdisc add dev sa root tbf rate 1gbit burst 128kb latency 5ms"],
        Subject(interface="sa"),
    ),
    "bridge": (
        ["link add br0 type bridge", "link add ba type veth peer name bb",
         "link add bc type veth peer name bd", "link set ba master br0",
         "link set bc master br0"],
        Subject(interface="br0"),
    ),
    "macvlan": (
        ["link add m0 type veth peer name m1", "link add mv link m0 type macvlan"],
        Subject(interface="mv"),
    ),
    "address": (
        ["link add aa type veth peer name ab", "addr add 192.0.2.7/24 dev aa",
         "addr add 2001:db8::7/64 dev aa nodad", "link set aa up"],
        Subject(listen=("0.0.0.0:80", "unix:/run/x", "192.0.2.7:443")),
    ),
    "address of IPv6": ([], Subject(listen=("[2001:db8::7]:80",))),
    "default route": (
        ["link add ra type veth peer name rb", "link add rc type veth peer name rd",
         "link set ra up", "link set rb up", "link set rc up", "link set rd up",
         "addr add 198.51.100.2/24 dev ra", "addr add 203.0.113.2/24 dev rc",
         "route add default via 198.51.100.1 metric 200",
         "route add default via 203.0.113.1 metric 100"],
        Subject(listen=("127.0.0.1:8080",)),
    ),
    "bond": (
        ["link add trunk0 type bond mode 802.3ad", "link add oa type veth peer name ob",
         "link add oc type veth peer name od", "link set oa master trunk0",
         "link set oc master trunk0", "link set trunk0 up"],
        Subject(interface="trunk0"),
    ),
    "standby": (
        ["link add trunk1 type bond mode active-backup", "link add ta type veth peer name tb",
         "link set ta master trunk1"],
        Subject(interface="trunk1"),
    ),
    "vlan": (
        ["link add la type veth peer name lb", "link add link la name la.7 type vlan id 7"],
        Subject(interface="la.7"),
    ),
    "vlan on bridge on bond": (
        ["link add trunk2 type bond mode balance-xor", "link add xa type veth peer name xb",
         "link set xa master trunk2", "link add br2 type bridge", "link set trunk2 master br2",
         "link add link br2 name br2.30 type vlan id 30"],
        Subject(interface="br2.30"),
    ),
    # Made from outside, on a card of another namespace: what a container with macvlan sees.
    "stranger": ([], Subject(interface="stranger0")),
    "none such": ([], Subject(interface="nosuch0")),
    "loopback": ([], Subject(interface="lo")),
}  # fmt: skip


def run(command: str) -> None:
    words = command.split()
    subprocess.run(words if words[0] == "tc" else ["ip", *words], check=True)


def main(scenes: list[str]) -> None:
    found = {}
    for scene in scenes:
        commands, subject = SCENES[scene]
        for command in commands:
            run(command)
        before = len(os.listdir("/proc/self/fd"))
        facts = gather(subject)
        found[scene] = json.loads(encode(facts))
        found[scene]["descriptors kept"] = len(os.listdir("/proc/self/fd")) - before
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
