from __future__ import annotations

import pytest

from edgebox.route.paths import is_below


@pytest.mark.parametrize(
    ("path", "prefix", "below"),
    [
        (b"/", b"/", True),
        (b"/a", b"/", True),
        (b"/app", b"/app", True),
        (b"/app/x", b"/app", True),
        (b"/apple", b"/app", False),
        (b"/app", b"/app/", False),
        (b"/app/x", b"/app/", True),
        (b"/ap", b"/app", False),
    ],
)
def test_prefixes_match_whole_segments(path: bytes, prefix: bytes, below: bool) -> None:
    assert is_below(path, prefix) is below
