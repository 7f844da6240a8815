"""The page in one piece: its style and script are put into it, so that it asks for nothing else."""

from __future__ import annotations

from html import escape
from pathlib import Path


def _assemble() -> str:
    here = Path(__file__).parent
    page = (here / "page.html").read_text()
    for name in ("page.css", "page.js"):
        page = page.replace(f"/* {name} */", (here / name).read_text())
    return page


# Read with the module: a worker may be locked into another root before it serves.
_PAGE = _assemble()


def page(metrics: str) -> bytes:
    """The page, with a link to where the metrics are."""
    return _PAGE.replace('href="/metrics"', f'href="{escape(metrics)}"').encode()
