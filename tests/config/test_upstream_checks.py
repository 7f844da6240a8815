from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebox.config.upstream_checks import check_upstream
from edgebox.config.upstreams import Upstream, UpstreamHealth, UpstreamServer, UpstreamTls

Told = Callable[..., dict[str, str]]
ONE = Upstream(servers=("http://127.0.0.1:8000",))


def test_an_upstream_as_it_should_be_passes(told: Told) -> None:
    servers = (
        "http://app.example:8000",
        "unix:/run/app.sock",
        UpstreamServer(url="https://[::1]", weight=3),
        UpstreamServer(url="http://127.0.0.1", backup=True),
    )
    assert told(Upstream(servers=servers)) == {}


def test_there_is_a_server_and_one_that_is_no_backup(told: Told) -> None:
    assert "is empty" in told(Upstream(servers=()))["servers"]
    backup = UpstreamServer(url="http://127.0.0.1:1", backup=True)
    assert "all backups" in told(Upstream(servers=(backup,)))["servers"]
    assert told(Upstream(servers=(backup, "http://127.0.0.1:2"))) == {}


def test_a_server_has_a_url(told: Told) -> None:
    problems = told(Upstream(servers=("127.0.0.1:8000",)))
    assert problems["0"].startswith('"127.0.0.1:8000" is no address')
    problems = told(Upstream(servers=(UpstreamServer(url="http://a:0"),)))
    assert "port 0" in problems["url"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://a", "http://A:80/"),
        ("unix:/a", "unix:/a"),
        ("https://a", "https://a:443"),
    ],
)
def test_a_server_is_listed_once_however_it_is_written(told: Told, first: str, second: str) -> None:
    assert "twice" in told(Upstream(servers=(first, second)))["1"]


@pytest.mark.parametrize("name", ["", "a.b", "http://x", "a b", "unix:"])
def test_a_name_cannot_be_taken_for_a_url(name: str) -> None:
    ((path, text),) = check_upstream(ONE, name)
    assert path == ("upstream", name)
    assert "no name" in text


@pytest.mark.parametrize("path", ["healthz", "http://a/", "/a b", "/a#b", "/ä", "/\n"])
def test_what_is_asked_for_health_is_a_path(told: Told, path: str) -> None:
    assert "no path" in told(replace(ONE, health=UpstreamHealth(path=path)))["path"]


def test_some_answer_is_good(told: Told) -> None:
    assert told(replace(ONE, health=UpstreamHealth(path="/healthz?full=1"))) == {}
    assert "ever be good" in told(replace(ONE, health=UpstreamHealth(expect=())))["expect"]


def test_trust_is_only_for_https(told: Told, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    tls = UpstreamTls(ca=str(ca), server_name="App.example")
    assert told(Upstream(servers=("https://10.0.0.1",), tls=tls)) == {}
    assert "none of the servers" in told(replace(ONE, tls=tls))["tls"]


def test_trust_is_in_a_file_and_a_name(told: Told) -> None:
    secure = Upstream(servers=("https://a",))
    assert "no such file" in told(replace(secure, tls=UpstreamTls(ca="/no/ca.pem")))["ca"]
    for name in ("https://a", "*.a", "*", "a:443", "a b"):
        assert "no name" in told(replace(secure, tls=UpstreamTls(server_name=name)))["server_name"]
