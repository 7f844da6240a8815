"""Helpers of the configuration's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.config.load import load_text
from edgebox.config.problems import ConfigError


@pytest.fixture
def problems_of(tmp_path: Path) -> Callable[[str], list[str]]:
    """The problems of a text as the operator reads them, without the directory of the file."""

    def problems(text: str) -> list[str]:
        try:
            load_text(text, str(tmp_path / "e.toml"))
        except ConfigError as error:
            return [str(problem).replace(f"{tmp_path}/", "") for problem in error.problems]
        return []

    return problems
