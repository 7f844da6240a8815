from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from edgebox.cli.main import main
from edgebox.config.load import load_text
from edgebox.ops.sizing.sizing import size
from edgebox.plan.facts import decode

BOX = str(Path(__file__).parent.parent / "plan" / "boxes" / "bare-metal-1g.json")


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Runs in an empty directory, on a machine without /etc/edgebox."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edgebox.config.load.find_config.__defaults__", ((Path("edgebox.toml"),),))
    return CliRunner()


def test_a_right_file_is_ok(runner: CliRunner) -> None:
    Path("x.toml").write_text('[server]\nname = "x"\n')
    result = runner.invoke(main, ["check", "-c", "x.toml"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "x.toml: ok\n", "")


def test_every_problem_goes_to_standard_error(runner: CliRunner) -> None:
    Path("x.toml").write_text('[server]\nnam = "x"\n[log]\nlevel = 5\n')
    result = runner.invoke(main, ["check", "--config", "x.toml"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        'x.toml:2: server.nam: unknown key; did you mean "name"?',
        'x.toml:4: log.level: 5 is none of "debug", "error", "info", "warning"',
    ]


def test_a_missing_file_is_a_problem(runner: CliRunner) -> None:
    result = runner.invoke(main, ["check", "-c", "no.toml", "--dump"])
    assert result.exit_code == 1
    assert result.stderr == "no.toml: cannot be read: No such file or directory\n"


def test_without_a_file_name_the_one_here_is_checked(runner: CliRunner) -> None:
    result = runner.invoke(main, ["check"])
    assert (result.exit_code, result.stdout) == (0, "built-in defaults: ok\n")
    Path("edgebox.toml").write_text("")
    result = runner.invoke(main, ["check"])
    assert (result.exit_code, result.stdout) == (0, "edgebox.toml: ok\n")


def test_a_dump_is_what_is_in_force_and_nothing_else(runner: CliRunner, tmp_path: Path) -> None:
    Path("edgebox.toml").write_text('[server]\nname = "x"\n[limits]\nconnections = 5\n')
    result = runner.invoke(main, ["check", "--dump", "--facts", BOX])
    assert (result.exit_code, result.stderr) == (0, "edgebox.toml: ok\n")
    assert tomllib.loads(result.stdout)["limits"]["connections"] == 5
    asked = load_text(Path("edgebox.toml").read_text(), "edgebox.toml")
    dumped = load_text(result.stdout, str(tmp_path / "dump.toml"))
    whole = size(asked, decode(Path(BOX).read_bytes())).whole
    whole = replace(whole, cache=replace(whole.cache, via=dumped.cache.via))  # drawn by lot
    assert dumped == whole


def test_every_auto_in_a_dump_comes_from_the_plan_with_its_reason(runner: CliRunner) -> None:
    dumped = runner.invoke(main, ["check", "--dump", "--facts", BOX]).stdout
    assert [line for line in dumped.splitlines() if '"auto"' in line] == ['socket = "auto"']
    assert 'speed = "1 Gbit/s"  # planned: eno1 at 1 Gbit/s, full duplex, as negotiated' in dumped
    assert "connections = 117685  # planned: limited by" in dumped
    autos = {line.split(" = ")[0] for line in dumped.splitlines() if line.endswith("  # auto")}
    assert autos == {"dir", "via"}


@pytest.mark.slow
def test_the_defaults_can_be_dumped_for_this_machine(runner: CliRunner) -> None:
    result = runner.invoke(main, ["check", "--dump"])
    assert load_text(result.stdout, "dump.toml").limits.connections


def test_a_dump_of_routes_and_upstreams_can_be_checked(runner: CliRunner) -> None:
    Path("edgebox.toml").write_text(
        '[[site]]\n[[site.route]]\nupstream = "app"\n'
        '[upstream.app]\nservers = ["http://127.0.0.1:1", { url = "unix:/a", backup = true }]\n'
    )
    dumped = runner.invoke(main, ["check", "--dump", "--facts", BOX]).stdout
    Path("dump.toml").write_text(dumped)
    result = runner.invoke(main, ["check", "-c", "dump.toml", "--dump", "--facts", BOX])
    assert result.stderr == "dump.toml: ok\n"
    assert result.stdout == re.sub(r"  # (auto|planned: .*)\n", "\n", dumped)
    assert 'root = ""\n' in dumped
