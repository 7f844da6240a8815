"""A missing tool: elsewhere the test is skipped and says how to get it; in CI it fails."""

from __future__ import annotations

import pytest

from tests.box.conftest import lack, need


def test_a_tool_that_is_there_is_found() -> None:
    assert need("sh", "dash").endswith("/sh")


def test_a_missing_tool_skips_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGEBOX_NO_SKIP", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs no-such-tool: apt-get install its-name"):
        need("no-such-tool", "its-name")


def test_where_nothing_may_be_skipped_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEBOX_NO_SKIP", "1")
    with pytest.raises(pytest.fail.Exception, match="needs no-such-tool"):
        need("no-such-tool", "its-name")
    with pytest.raises(pytest.fail.Exception, match="needs more"):
        lack("needs more")
