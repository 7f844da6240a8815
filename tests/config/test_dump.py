from __future__ import annotations

from pathlib import Path

from edgebox.config.dump import dump
from edgebox.config.load import load_text
from edgebox.config.schema import Compression, Config, Files, Limits, Log, Server, Site
from edgebox.config.settle import Machine, settle

MACHINE = Machine(memory=2**33, descriptors=4096, somaxconn=4096, watches=8192, cache="/c")


def rich(tmp_path: Path) -> Config:
    """A configuration with something odd in every place."""
    return Config(
        server=Server(listen=("[::1]:0", "unix:/run/x"), name="", drain=0.00025),
        limits=Limits(connections=5, linger=86400.0, send_rate=125_000, head_size=1),
        files=Files(working_set=3 * 1024**3, stat_cache="off", open_files=0),
        compression=Compression(dir=f"{tmp_path}/c d", codings=(), types=("a/*",)),
        log=Log(access=f"{tmp_path}/a.log", format="json"),
        site=(
            Site(
                hosts=("a.example", "*"),
                root=str(tmp_path),
                error_pages={"404": '/a "b".html', "500": "/ä\\.html"},
                headers={"X-A": 'b "c" \\', "Y": ""},
                types={".x": "text/plain"},
            ),
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
    assert marked == {"backlog", "connections", "working_set", "open_files", "watches", "dir"}


def test_a_dump_has_units_and_autos() -> None:
    lines = dump(Config()).splitlines()
    assert 'head_size = "16 KiB"' in lines
    assert 'send_rate = "1 kB/s"' in lines
    assert 'drain = "30s"' in lines
    assert 'working_set = "auto"' in lines


def test_plain_keys_come_before_the_tables_below_them(tmp_path: Path) -> None:
    text = dump(rich(tmp_path))
    assert text.index("dotfiles") < text.index("[site.error_pages]")
    assert text.endswith("\n")
