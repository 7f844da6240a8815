"""cloud-init's network-config as units of systemd-networkd: addresses, gateways, name servers.

Versions 1 (which Proxmox writes) and 2 (netplan's), as far as an edge node has use for them: its
physical cards. Bonds, bridges and VLANs are for units that `write_files` brings.
"""


def listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def version_1(told: dict) -> dict[str, str]:
    units, servers = {}, []
    for each in told.get("config", []):
        if each.get("type") == "nameserver":
            servers += listed(each.get("address", []))
    for each in told.get("config", []):
        if each.get("type") != "physical":
            continue
        mac = each.get("mac_address")
        lines = ["[Match]", f"MACAddress={mac}" if mac else f"Name={each['name']}", "[Network]"]
        for subnet in each.get("subnets", []):
            if subnet["type"].startswith("dhcp"):
                lines.append("DHCP=yes")
            elif subnet["type"].startswith("static"):
                address = subnet["address"]
                if "/" not in address and "netmask" in subnet:
                    bits = sum(int(part).bit_count() for part in subnet["netmask"].split("."))
                    address += f"/{bits}"
                lines.append(f"Address={address}")
                if "gateway" in subnet:
                    lines.append(f"Gateway={subnet['gateway']}")
            servers += listed(subnet.get("dns_nameservers", []))
        lines += [f"DNS={server}" for server in dict.fromkeys(servers)]
        units[each["name"]] = "\n".join(lines) + "\n"
    return units


def version_2(told: dict) -> dict[str, str]:
    units = {}
    for name, each in (told.get("ethernets") or {}).items():
        match = each.get("match") or {}
        lines = ["[Match]"]
        if "macaddress" in match:
            lines.append(f"MACAddress={match['macaddress']}")
        else:
            lines.append(f"Name={match.get('name', name)}")
        both = ("no", "ipv4", "ipv6", "yes")
        lines += [
            "[Network]",
            f"DHCP={both[bool(each.get('dhcp4')) + 2 * bool(each.get('dhcp6'))]}",
        ]
        lines += [f"Address={address}" for address in each.get("addresses") or []]
        lines += [f"Gateway={each[key]}" for key in ("gateway4", "gateway6") if key in each]
        for server in (each.get("nameservers") or {}).get("addresses") or []:
            lines.append(f"DNS={server}")
        for route in each.get("routes") or []:
            to = str(route["to"])
            lines += ["[Route]", f"Gateway={route['via']}"]
            lines += [] if to == "default" else [f"Destination={to}"]
        units[name] = "\n".join(lines) + "\n"
    return units


def units_of(told: dict) -> dict[str, str]:
    """networkd's units by interface, from a network-config as it was parsed."""
    told = told.get("network", told)
    return version_1(told) if told.get("version") == 1 else version_2(told)
