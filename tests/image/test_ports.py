"""The firewall opens what the configuration listens at, and nothing that is for this box only."""

import tomllib
from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def ports(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("usr/lib/appliance/ports")


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ('[server]\nlisten = ["*:80", "[::]:443"]\n[status]\nlisten = "*:9180"', {80, 443, 9180}),
        ('[server]\nlisten = ["127.0.0.1:8080", "[::1]:81", "unix:/run/x.sock"]', set()),
        ('[server]\nlisten = ["192.0.2.7:8000"]', {8000}),
        ('[server]\nlisten = [{address = "*:443", tls = true}]', {443}),
    ],
)
def test_ports_that_others_may_reach(ports: ModuleType, text: str, opened: set[int]) -> None:
    assert ports.ports(ports.addresses(tomllib.loads(text))) == opened
