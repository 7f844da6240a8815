"""A seed's network-config means the same to networkd as it does to cloud-init."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def networks(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("usr/lib/appliance/networks.py")


def test_version_2_gives_a_fixed_address_gateway_and_name_server(networks: ModuleType) -> None:
    told = {
        "version": 2,
        "ethernets": {
            "all": {
                "match": {"name": "e*"},
                "addresses": ["192.0.2.10/24", "2001:db8::10/64"],
                "gateway4": "192.0.2.1",
                "nameservers": {"addresses": ["192.0.2.53"]},
            }
        },
    }
    assert networks.units_of(told)["all"].splitlines() == [
        "[Match]",
        "Name=e*",
        "[Network]",
        "DHCP=no",
        "Address=192.0.2.10/24",
        "Address=2001:db8::10/64",
        "Gateway=192.0.2.1",
        "DNS=192.0.2.53",
    ]


@pytest.mark.parametrize(
    ("four", "six", "meant"),
    [(False, False, "no"), (True, False, "ipv4"), (False, True, "ipv6"), (True, True, "yes")],
)
def test_version_2_asks_by_dhcp_for_what_is_named(
    networks: ModuleType, four: bool, six: bool, meant: str
) -> None:
    told = {"network": {"version": 2, "ethernets": {"eth0": {"dhcp4": four, "dhcp6": six}}}}
    unit = networks.units_of(told)["eth0"]
    assert f"DHCP={meant}\n" in unit
    assert "Name=eth0\n" in unit


def test_version_2_routes(networks: ModuleType) -> None:
    routes = [{"to": "default", "via": "192.0.2.1"}, {"to": "10.0.0.0/8", "via": "192.0.2.2"}]
    told = {"version": 2, "ethernets": {"eth0": {"routes": routes}}}
    unit = networks.units_of(told)["eth0"]
    assert unit.endswith(
        "[Route]\nGateway=192.0.2.1\n[Route]\nGateway=192.0.2.2\nDestination=10.0.0.0/8\n"
    )


def test_version_1_as_proxmox_writes_it(networks: ModuleType) -> None:
    told = {
        "version": 1,
        "config": [
            {
                "type": "physical",
                "name": "eth0",
                "mac_address": "bc:24:11:00:00:01",
                "subnets": [
                    {
                        "type": "static",
                        "address": "192.0.2.10",
                        "netmask": "255.255.255.0",
                        "gateway": "192.0.2.1",
                    },
                    {"type": "dhcp6"},
                ],
            },
            {"type": "nameserver", "address": ["192.0.2.53"], "search": ["example.net"]},
        ],
    }
    assert networks.units_of(told)["eth0"].splitlines() == [
        "[Match]",
        "MACAddress=bc:24:11:00:00:01",
        "[Network]",
        "Address=192.0.2.10/24",
        "Gateway=192.0.2.1",
        "DHCP=yes",
        "DNS=192.0.2.53",
    ]
