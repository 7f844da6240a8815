from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from edgebox import __version__
from edgebox.cli.main import VERBS, main


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(main, ["--version"]).stdout == f"edgebox {__version__}\n"
    assert CliRunner().invoke(main, ["version"]).stdout.startswith(f"edgebox {__version__}\n")


def test_help_lists_every_verb() -> None:
    told = CliRunner().invoke(main, ["--help"]).stdout
    assert all(f"  {name} " in told for name in VERBS)


def test_an_unknown_verb_is_refused() -> None:
    result = CliRunner().invoke(main, ["srve"])
    assert result.exit_code == 2
    assert "srve" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["check"], ["config-schema"]], ids=" ".join)
def test_a_verb_does_not_import_what_only_others_need(arguments: list[str]) -> None:
    program = (
        "import sys; from edgebox.cli.main import main;"
        f"main({arguments!r}, standalone_mode=False);"
        "print([m for m in ('trio', 'h11', 'rich', 'pyroute2') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_loading_a_configuration_needs_no_command_line() -> None:
    program = (
        "import sys, edgebox.config.load, edgebox.config.settle;"
        "print([m for m in ('click', 'rich', 'trio') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert ran.stdout == "[]\n"


@pytest.mark.slow
def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "edgebox", "--version"]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    assert ran.stdout == f"edgebox {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["config-schema"]], ids=" ".join)
def test_what_cannot_be_written_down_is_told_in_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "edgebox", *arguments]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (1, "Error: cannot write: No space left on device\n")
