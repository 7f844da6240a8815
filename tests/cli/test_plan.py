"""Promises of `edgebox plan`: it shows, explains and compares, and changes nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from edgebox.cli.plan import plan, show
from edgebox.config.schema import Config
from edgebox.plan.facts import Facts, decode
from edgebox.plan.figures import Plan
from edgebox.plan.planner import plan as plan_for
from edgebox.plan.report import text

Run = Callable[..., Result]
BOXES = Path(__file__).parent.parent / "plan" / "boxes"
BARE = str(BOXES / "bare-metal-1g.json")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edgebox.toml").write_text("")

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(plan, arguments, input=stdin)

    return invoke


def test_saved_facts_give_the_same_plan_anywhere(run: Run) -> None:
    result = run("--facts", BARE)
    assert result.exit_code == 0
    assert result.stdout == (BOXES / "bare-metal-1g.txt").read_text()


def test_json_is_the_plan_s_record(run: Run) -> None:
    result = run("--facts", BARE, "--json")
    found = msgspec.json.decode(result.stdout, type=Plan)
    assert found == plan_for(decode(Path(BARE).read_bytes()), Config())


def test_explain_shows_one_number(run: Run) -> None:
    result = run("--facts", BARE, "--explain", "server.workers")
    assert result.stdout.startswith("server.workers ")
    assert "0.224 cores" in result.stdout
    assert "limits.connections" not in result.stdout
    as_json = json.loads(run("--facts", BARE, "--explain", "server.workers", "--json").stdout)
    assert (as_json["key"], as_json["value"]) == ("server.workers", 1)


def test_explain_of_no_number_says_what_was_meant(run: Run) -> None:
    result = run("--facts", BARE, "--explain", "server.worker")
    assert result.exit_code == 2
    assert "did you mean server.workers?" in result.stderr


def test_what_if_compares(run: Run) -> None:
    result = run("--facts", BARE, "--what-if", "nic=10G,ram=64G")
    assert "With nic=10G,ram=64G:" in result.stdout
    assert "× 10\n" in result.stdout
    both = json.loads(run("--facts", BARE, "--what-if", "nic=10G", "--json").stdout)
    assert set(both) == {"now", "then"}


def test_a_what_if_that_cannot_be_understood_is_told(run: Run) -> None:
    result = run("--facts", BARE, "--what-if", "nick=10G")
    assert result.exit_code == 2
    assert "did you mean nic?" in result.stderr


def test_what_the_operator_says_goes_before_the_machine(run: Run) -> None:
    result = run(
        "--facts", BARE, "--nic", "2.5G", "--memory", "1G", "--workers", "3",
        "--object-size", "10 kB", "--round-trip", "20ms", "--json",
    )  # fmt: skip
    found = msgspec.json.decode(result.stdout, type=Plan)
    assert found.value("nic.speed") == 2_500_000_000
    assert found.value("memory.budget") == 1024**3
    assert found.value("server.workers") == 3
    assert "10,000 B" in found.number("link.answers").reason
    assert "20 ms" in found.number("memory.kernel_buffers").sum


@pytest.mark.parametrize(
    "words",
    [("--nic", "fast"), ("--nic", "0 bit/s"), ("--memory", "0 B"), ("--round-trip", "0s"),
     ("--workers", "0"), ("--round-trip", "2h")],
)  # fmt: skip
def test_an_option_that_means_nothing_is_refused(run: Run, words: tuple[str, str]) -> None:
    assert run("--facts", BARE, *words).exit_code == 2


def test_a_file_without_facts_is_refused_with_the_place(run: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"memory": {"total": "much"}}')
    result = run("--facts", str(wrong))
    assert result.exit_code == 1
    assert "wrong.json" in result.stderr
    assert "$.memory.total" in result.stderr


def test_a_file_that_is_not_there_is_told(run: Run) -> None:
    result = run("--facts", "none.json")
    assert (result.exit_code, result.stderr) == (1, "none.json: No such file or directory\n")


def test_facts_can_come_from_a_pipe(run: Run) -> None:
    result = run("--facts", "-", "--json", stdin=Path(BARE).read_bytes())
    assert msgspec.json.decode(result.stdout, type=Plan).value("nic.speed") == 10**9


def test_another_machine_s_facts_and_a_look_at_this_one_exclude_each_other(run: Run) -> None:
    assert run("--facts", BARE, "--calibrate").exit_code == 2
    assert run("--facts", BARE, "--interface", "lo").exit_code == 2


def test_a_configuration_s_own_numbers_stand(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[limits]\nconnections = 77\n")
    result = run("--facts", BARE, "-c", str(file), "--explain", "limits.connections")
    assert "77 (set)" in result.stdout
    assert "117,685" in result.stdout


def test_a_wrong_configuration_is_told_and_nothing_is_planned(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[limits]\nconections = 77\n")
    result = run("--facts", BARE, "-c", str(file))
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.slow
def test_this_machine_is_looked_at_saved_and_planned_for_alike(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "facts.json"
    result = run("--save-facts", str(saved), "--interface", "lo", "--json")
    assert result.exit_code == 0
    again = run("--facts", str(saved), "--json")
    assert again.stdout == result.stdout
    alone = run("--save-facts", "-", "--interface", "lo")
    assert decode(alone.stdout.encode()).network.interface == "lo"


@pytest.mark.slow
def test_a_measurement_replaces_the_assumed_costs(run: Run) -> None:
    result = run("--calibrate", "--interface", "lo", "--explain", "limits.keep_alive_pressure")
    assert "measured here over loopback" in result.stdout


def test_on_a_terminal_it_is_a_table_with_every_number_sum_and_command() -> None:
    found = plan_for(decode((BOXES / "bad-cable.json").read_bytes()), Config())
    out = io.StringIO()
    show(found, Console(file=out, width=200, force_terminal=True, color_system=None))
    shown = out.getvalue()
    for number in found.numbers:
        assert number.key in shown
        assert all(line in shown for line in number.sum.splitlines() if len(line) < 120)
    for advice in found.advice:
        assert all(command in shown for command in advice.commands)


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    facts = decode(b'{"network": {"interface": "[red]", "links": [{"name": "[red]"}]}}')
    out = io.StringIO()
    show(plan_for(facts, Config()), Console(file=out, width=120, color_system=None))
    assert "[red] (no driver known)" in out.getvalue()
    assert "[red]" in text(plan_for(facts, Config()))
    assert isinstance(facts, Facts)


def test_what_the_running_server_has_seen_of_other_memory_is_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None: ...

        def ask(self, verb: str) -> dict[str, object]:
            assert verb == "status"
            return {"sheet": {"what_if": [[2**30, 0.5], [2**34, 0.75]]}}

    monkeypatch.setattr("edgebox.cli.control.connect", lambda *_: Client())
    assert "−15 GiB → −25.0 %" in run("--facts", BARE, "--running").stdout
    found = json.loads(run("--facts", BARE, "--running", "--json").stdout)
    assert found["what_if"] == [[2**30, 0.5], [2**34, 0.75]]
