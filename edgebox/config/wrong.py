"""Why a single value will not do: addresses, hosts, names and values of fields, paths.

Each function takes a value and gives the rest of a sentence that begins with it, or None
where nothing is wrong. Knows no table and no key. Only the last two look at the disk.
"""

from __future__ import annotations

import os
import re
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from stat import S_ISDIR, S_ISREG

from edgebox.config.problems import show

# RFC 9110 §5.6.2, and §8.3.1 for what media types are made of.
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
MEDIA_TYPE = re.compile(rf"{TOKEN.pattern}/{TOKEN.pattern}([ \t]*;.*)?")
# RFC 9110 §5.5: visible ASCII with spaces and tabs only between.
FIELD_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")
# RFC 1123 §2.1; the underscore is no host name, but is seen in the wild.
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")

SOCKET_PATH = 107  # octets of sun_path without its NUL, unix(7)


def wrong_address(address: str) -> str | None:
    """As something to listen on."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            return 'must name an absolute path, as "unix:/run/edgebox/http.sock"'
        if len(os.fsencode(path)) > SOCKET_PATH:
            return f"is too long: the path of a Unix socket has at most {SOCKET_PATH} octets"
        return None
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":"):
        return 'has no port: write HOST:PORT, as "127.0.0.1:8080" or "[::1]:8080"'
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        return f"has no valid port: {show(port)} is not a number from 0 to 65535"
    if host in ("", "*", "localhost"):
        return None
    return _wrong_host_address(host)


def _wrong_host_address(host: str) -> str | None:
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        version = ip_address(inner).version
    except ValueError:
        return f'names {show(host)}: it must be an IP address, "localhost", or "*" for all'
    if (version == 6) != (inner != host):
        return "has brackets wrong: IPv6 addresses have them, IPv4 has not"
    return None


def wrong_host(host: str) -> str | None:
    """As a pattern of hosts."""
    if host == "*":
        return None
    if "/" in host:
        return "must be a host alone, without scheme or path"
    if not host.isascii():
        return 'must be written in its ASCII form, "xn--..."'
    if host.startswith("["):
        try:
            IPv6Address(host[1:].removesuffix("]"))
        except ValueError:
            return "is no IPv6 address"
        return None if host.endswith("]") else "must be a host alone, without port"
    if ":" in host:
        return "must be a host alone, without port"
    if "*" in host.removeprefix("*."):
        return 'may have a star only as its whole first label, as "*.example.com"'
    if not _HOST.fullmatch(host) or len(host) > 253:
        return 'is no host name, as "www.example.com" or "*.example.com"'
    return None


def wrong_network(network: str) -> str | None:
    """As a set of addresses."""
    try:
        parsed = ip_network(network, strict=False)
    except ValueError:
        return 'is no network: write "10.0.0.0/8", "fd00::/8", or one address alone'
    if isinstance(parsed, IPv6Network) and parsed.network_address.ipv4_mapped is not None:
        return 'must be written as IPv4, "10.0.0.0/8": so clients are compared'
    if parsed.network_address != ip_address(network.partition("/")[0]):
        return f'is an address in a network: did you mean "{parsed}", or the address alone?'
    return None


def wrong_field_name(name: str) -> str | None:
    if TOKEN.fullmatch(name):
        return None
    return "is no field name: letters, digits and - only (RFC 9110 §5.1)"


def wrong_field_value(value: str) -> str | None:
    if FIELD_VALUE.fullmatch(value):
        return None
    return f"{show(value)} must be visible ASCII, with spaces only between (RFC 9110 §5.5)"


def wrong_cookie(pattern: str) -> str | None:
    """As a pattern of cookies' names (RFC 6265 §4.1.1)."""
    if "[" in pattern or "]" in pattern:
        return 'may have "*" for any characters and "?" for one; so write "?" for a bracket'
    if not TOKEN.fullmatch(pattern.replace("?", "*")):
        return 'is no name of a cookie, as "session" or "wordpress_*"'
    return None


def wrong_parameter(pattern: str) -> str | None:
    """As a pattern of query parameters' names, which are compared as they are sent."""
    if "[" in pattern or "]" in pattern:
        return 'may have "*" for any characters and "?" for one; so write "?" for a bracket'
    if not re.fullmatch(r"[!-~]+", pattern):
        return 'must be written as it is sent, "%20" for a space'
    if set(pattern) & set("&=#"):
        return 'is no name of a parameter, as "ref" or "utm_*"'
    return None


def no_directory(path: str) -> str | None:
    """Why `path` is not a directory that can be read. A whole sentence."""
    return _not_there(path, "directory")


def no_file(path: str) -> str | None:
    """Why `path` is not a file that can be read. A whole sentence."""
    return _not_there(path, "file")


def _not_there(path: str, what: str) -> str | None:
    is_right = S_ISDIR if what == "directory" else S_ISREG
    try:
        if is_right(os.stat(path).st_mode):
            return None
    except FileNotFoundError:
        return f"no such {what}: {path}"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        return f"cannot use {show(path)}: {getattr(error, 'strerror', None) or error}"
    return f"is not a {what}: {path}"
