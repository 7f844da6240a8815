"""Helpers of the configuration's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebox.config.checks import check
from edgebox.config.load import load_text
from edgebox.config.marks import Record
from edgebox.config.problems import ConfigError
from edgebox.config.schema import Config, Site
from edgebox.config.upstreams import Upstream


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


@pytest.fixture
def told() -> Callable[..., dict[str, str]]:
    """What is wrong with some tables, the rest at its defaults, by the last part of its path."""

    def told(*tables: Record) -> dict[str, str]:
        config = Config()
        for table in tables:
            match table:
                case Site():
                    config = replace(config, site=(table,))
                case Upstream():
                    config = replace(config, upstream={"app": table})
                case _:
                    config = replace(config, **{type(table).__name__.lower(): table})
        return {str(path[-1]): text for path, text in check(config)}

    return told
