from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.wrong import (
    no_file,
    wrong_address,
    wrong_cookie,
    wrong_field_name,
    wrong_field_value,
    wrong_host,
    wrong_network,
    wrong_parameter,
)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8080", "0.0.0.0:80", "*:80", ":80", "localhost:0", "[::1]:443", "[::]:80",
     "unix:/run/edgebox/http.sock"],
)  # fmt: skip
def test_an_address_that_can_be_listened_on_passes(address: str) -> None:
    assert wrong_address(address) is None


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("8080", "no port"),
        ("127.0.0.1", "no port"),
        ("::", "no port"),
        ("[::1]", "no port"),
        ("127.0.0.1:", "no valid port"),
        ("127.0.0.1:http", "no valid port"),
        ("127.0.0.1:70000", "no valid port"),
        ("127.0.0.1:٣", "no valid port"),
        ("::1:80", "brackets"),
        ("[127.0.0.1]:80", "brackets"),
        ("www.example.com:80", "must be an IP address"),
        ("http://127.0.0.1:80", "must be an IP address"),
        ("127.0.0.256:80", "must be an IP address"),
        ("unix:", "absolute path"),
        ("unix:run/x.sock", "absolute path"),
        ("unix:@abstract", "absolute path"),
        ("unix:/" + 107 * "x", "too long"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_told_why(address: str, problem: str) -> None:
    assert problem in (wrong_address(address) or "")


@pytest.mark.parametrize(
    "host",
    ["*", "example.com", "*.example.com", "localhost", "10.0.0.1", "[::1]", "a_b.example",
     "xn--bcher-kva.example", "1.example"],
)  # fmt: skip
def test_a_host_pattern_passes(host: str) -> None:
    assert wrong_host(host) is None


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("", "no host name"),
        ("https://example.com", "without scheme or path"),
        ("example.com/a", "without scheme or path"),
        ("example.com:80", "without port"),
        ("[::1]:80", "no IPv6 address"),
        ("[::1", "without port"),
        ("[::x]", "no IPv6 address"),
        ("bücher.example", "xn--"),
        ("www.*.com", "whole first label"),
        ("*x.com", "whole first label"),
        ("**", "whole first label"),
        ("*.", "no host name"),
        ("example.com.", "no host name"),
        ("-a.example", "no host name"),
        ("a b", "no host name"),
        ("a\n", "no host name"),
        (64 * "a" + ".example", "no host name"),
        (".".join(130 * ["ab"]), "no host name"),
    ],
)
def test_what_is_no_host_pattern_is_told_why(host: str, problem: str) -> None:
    assert problem in (wrong_host(host) or "")


@pytest.mark.parametrize(
    "network",
    ["10.0.0.0/8", "192.0.2.1", "::1/128", "fd00::/8", "2001:db8::1", "0.0.0.0/0", "::/0"],
)
def test_a_network_passes(network: str) -> None:
    assert wrong_network(network) is None


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ("", "no network"),
        ("localhost", "no network"),
        ("10.0.0.0/33", "no network"),
        ("10.0.0/8", "no network"),
        ("10.0.0.1/8", 'did you mean "10.0.0.0/8"'),
        ("2001:db8::1/32", 'did you mean "2001:db8::/32"'),
        ("::ffff:10.0.0.0/104", "written as IPv4"),
    ],
)
def test_what_is_no_network_is_told_why(network: str, problem: str) -> None:
    assert problem in (wrong_network(network) or "")


@given(st.text(alphabet="0123456789abcf.:/%x[]", max_size=20))
def test_any_text_is_a_network_or_is_told_why(text: str) -> None:
    assert wrong_network(text) != ""


def test_names_and_values_of_fields_are_those_of_http() -> None:
    assert wrong_field_name("X-A") is None
    assert "no field name" in (wrong_field_name("X A") or "")
    assert wrong_field_value("a b") is None
    assert "visible ASCII" in (wrong_field_value("a\n") or "")


@pytest.mark.parametrize("pattern", ["*", "session", "wp_*", "__Host-sid", "a?b"])
def test_a_cookie_pattern_passes(pattern: str) -> None:
    assert wrong_cookie(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "no name"),
        ("a=b", "no name"),
        ("a; b", "no name"),
        ("ä", "no name"),
        ("a[b]", "bracket"),
    ],
)
def test_what_is_no_cookie_pattern_is_told_why(pattern: str, problem: str) -> None:
    assert problem in (wrong_cookie(pattern) or "")


@pytest.mark.parametrize("pattern", ["*", "utm_*", "a.b", "filter?name?", "a%20b", "a;b"])
def test_a_parameter_pattern_passes(pattern: str) -> None:
    assert wrong_parameter(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "as it is sent"),
        ("a b", "as it is sent"),
        ("ä", "as it is sent"),
        ("utm=1", "no name"),
        ("a&b", "no name"),
        ("a[]", "bracket"),
    ],
)
def test_what_is_no_parameter_pattern_is_told_why(pattern: str, problem: str) -> None:
    assert problem in (wrong_parameter(pattern) or "")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    assert no_file(f"{tmp_path}/ca.pem") is None
    assert no_file(f"{tmp_path}/no") == f"no such file: {tmp_path}/no"
    assert no_file(str(tmp_path)) == f"is not a file: {tmp_path}"
