from __future__ import annotations

from pathlib import Path

from edgebox.config.dump import dump
from edgebox.config.load import load_text
from edgebox.config.schema import (
    Cache,
    Compression,
    Config,
    Files,
    Limits,
    Log,
    Route,
    Server,
    Site,
)
from edgebox.config.settle import Machine, settle
from edgebox.config.upstreams import Upstream, UpstreamHealth, UpstreamServer, UpstreamTls

MACHINE = Machine(memory=2**33, descriptors=4096, somaxconn=4096, watches=8192, cache="/c")


def rich(tmp_path: Path) -> Config:
    """A configuration with something odd in every place."""
    ca = tmp_path / "c a.pem"
    ca.touch()
    return Config(
        server=Server(listen=("[::1]:0", "unix:/run/x"), name="", drain=0.00025),
        limits=Limits(connections=5, linger=86400.0, send_rate=125_000, head_size=1025),
        files=Files(working_set=3 * 1024**3, stat_cache="off", open_files=0),
        compression=Compression(dir=f"{tmp_path}/c d", codings=(), types=("a/*",)),
        cache=Cache(name="box-1", dir="", largest=3, targets=(), trusted_proxies=("::/0",)),
        upstream={
            "app": Upstream(servers=("unix:/a b",), queue_timeout=0.25, retries=0),
            "5-_": Upstream(
                servers=("https://a", UpstreamServer(url="http://[::1]", weight=3, backup=True)),
                balance="hash",
                health=UpstreamHealth(path='/up?a="b"', expect=(204, 503)),
                tls=UpstreamTls(ca=str(ca), server_name="b.example"),
            ),
        },
        log=Log(access=f"{tmp_path}/a.log", format="json"),
        site=(
            Site(
                hosts=("a.example", "*"),
                root=str(tmp_path),
                error_pages={"404": '/a "b".html', "500": "/ä\\.html"},
                headers={"X-A": 'b "c" \\', "Y": ""},
                types={".x": "text/plain"},
                route=(
                    Route(upstream="5-_", default_freshness=300.0, drop_query=("utm_*",)),
                    Route(path='/a "b"/ä', cache=False, accel=str(tmp_path)),
                ),
            ),
            Site(hosts=("a.test",), route=(Route(upstream="http://a"),)),
            Site(hosts=("*.example",), dotfiles=True, headers={"Z": "z"}),
        ),
    )


def test_a_dump_loads_as_the_same_configuration(tmp_path: Path) -> None:
    for config in (
        Config(),
        rich(tmp_path),
        settle(Config(), MACHINE),
        settle(rich(tmp_path), MACHINE),
    ):
        assert load_text(dump(config), str(tmp_path / "e.toml")) == config


def test_a_dump_marks_what_was_decided_and_still_loads(tmp_path: Path) -> None:
    settled = settle(Config(), MACHINE)
    text = dump(settled, Config())
    assert load_text(text, str(tmp_path / "e.toml")) == settled
    marked = {line.split(" = ")[0] for line in text.splitlines() if line.endswith("  # auto")}
    assert marked == {
        "backlog", "workers", "connections", "send_buffer", "working_set", "open_files",
        "watches", "dir", "via",
    }  # fmt: skip
    assert f'dir = "{MACHINE.cache}/responses"  # auto' in text


def test_a_dump_tells_why_a_number_is_what_it_is(tmp_path: Path) -> None:
    settled = settle(Config(), MACHINE)
    text = dump(
        settled, Config(), {("server", "backlog"): "as many\n as  fit", ("log", "level"): "x"}
    )
    assert "backlog = 4096  # planned: as many as fit\n" in text
    assert text.count("# planned") == 1
    assert load_text(text, str(tmp_path / "e.toml")) == settled


def test_a_dump_has_units_and_autos() -> None:
    lines = dump(Config()).splitlines()
    assert 'head_size = "16 KiB"' in lines
    assert 'send_rate = "1 kB/s"' in lines
    assert 'drain = "30s"' in lines
    assert 'working_set = "auto"' in lines


def test_plain_keys_come_before_the_tables_below_them(tmp_path: Path) -> None:
    text = dump(rich(tmp_path))
    assert text.index("dotfiles") < text.index("[site.error_pages]")
    assert text.index("[site.error_pages]") < text.index("[[site.route]]")
    assert text.index("retries") < text.index("[upstream.app.health]")
    assert text.endswith("\n")


def test_a_server_is_written_with_all_that_is_said_of_it(tmp_path: Path) -> None:
    line = 'servers = ["https://a", { url = "http://[::1]", weight = 3, backup = true }]'
    assert line in dump(rich(tmp_path)).splitlines()
