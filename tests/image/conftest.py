"""The appliance's scripts as modules: they are programs, run by Debian's own Python."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SYSTEM = Path(__file__).parents[2] / "image/system"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Loads a file below image/system, with what lies beside it in reach; leaves no bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name: str) -> ModuleType:
        path = SYSTEM / name
        monkeypatch.syspath_prepend(str(path.parent))
        loader = SourceFileLoader(path.stem, str(path))
        spec = importlib.util.spec_from_loader(path.stem, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module

    return load
