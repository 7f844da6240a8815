"""A site's own page, for each status that its files can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebox.config.site_checks import WITH_PAGE
from tests.wire import configure, serving

HOW = {
    404: ("GET", "/none", ()),
    405: ("PUT", "/a.txt", ()),
    406: ("GET", "/a.txt", ("Accept-Encoding: identity;q=0",)),
    412: ("GET", "/a.txt", ('If-Match: "x"',)),
    416: ("GET", "/a.txt", ("Range: bytes=999999-",)),
    501: ("BREW", "/a.txt", ()),
}  # 403, 500 and 503 come the same way, and take a file system that cannot be had here


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
async def test_it_is_shown(root: Path, express: bool) -> None:
    pages = {}
    for name in WITH_PAGE:
        (root / f"{name}.html").write_text(f"our {name}")
        pages[name] = f"/{name}.html"
    config = configure(root, server={"express": express}, site={"error_pages": pages})
    async with serving(config) as server:
        for status, (method, target, fields) in HOW.items():
            for _ in range(2):
                answer = await server.get(target, *fields, method=method)
                assert (answer.status, answer.body) == (status, b"our %d" % status)
