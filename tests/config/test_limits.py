"""Limits that would let nobody in are mistakes, not limits."""

from __future__ import annotations

import pytest

from edgebox.config.convert import convert


@pytest.mark.parametrize("key", ["head_timeout", "body_timeout", "send_timeout"])
@pytest.mark.parametrize("value", [0, 0.0, "0s"])
def test_a_time_that_is_over_before_it_has_begun_is_refused(key: str, value: object) -> None:
    _, [(path, problem)] = convert({"limits": {key: value}})
    assert path == ("limits", key)
    assert "is too small: at least 1ms" in problem


@pytest.mark.parametrize("key", ["head_size", "target_length"])
def test_a_head_that_nobody_can_send_is_refused(key: str) -> None:
    _, [(path, problem)] = convert({"limits": {key: 0}})
    assert path == ("limits", key)
    assert "is too small: at least" in problem
