"""results.svg: CPU time per request as grouped horizontal bars. Pure.

One group a row, one bar a server, one scale for all, each bar with its name and its
number, so that nothing rests on colour. No background, and greys that hold on white and
on black: the picture stands in pages of either kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from perf.results import Result, median_of
from perf.rows import Unit
from perf.targets import FLOOR, SUBJECT

WIDTH, MARGIN = 760, 12
NAME, VALUE = 76, 64  # columns left and right of the bars
BAR, STEP, HEADING, GAP = 13, 17, 24, 12
ACCENT, PLAIN, TEXT = "#e8590c", "#7b93ab", "#808890"
FONT = "font-family='system-ui, sans-serif'"


def chart(results: Iterable[Result], peers: Sequence[str]) -> str:
    """The SVG document; rows in other units than µs are not in it."""
    groups = [
        (result.row.title, [(p, v) for p in peers if (v := median_of(result.figures, p))])
        for result in results
        if result.row.unit is Unit.MICROSECONDS
    ]
    longest = max((value for _, bars in groups for _, value in bars), default=1.0)
    scale = (WIDTH - 2 * MARGIN - NAME - VALUE) / longest
    shapes, y = [_text(MARGIN, 20, "CPU µs per request: shorter is better", size=15)], 36
    for title, bars in groups:
        shapes.append(_text(MARGIN, y + 15, title, size=13, weight="bold"))
        y += HEADING
        for peer, value in bars:
            shapes += _bar(y, peer, value, value * scale)
            y += STEP
        y += GAP
    body = "\n".join(shapes)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {y}' width='{WIDTH}' "
        f"height='{y}' role='img' aria-label='CPU time per request, by server' {FONT}>\n"
        f"{body}\n</svg>\n"
    )


def _bar(y: float, peer: str, value: float, length: float) -> list[str]:
    own = peer == SUBJECT
    colour = ACCENT if own else PLAIN
    # The floor is a bound and not a server: an outline.
    paint = f"fill='none' stroke='{colour}'" if peer == FLOOR else f"fill='{colour}'"
    left = MARGIN + NAME
    weight = "bold" if own else "normal"
    return [
        _text(left - 8, y + 11, peer, anchor="end", weight=weight),
        f"<rect x='{left}' y='{y}' width='{length:.1f}' height='{BAR}' rx='2' {paint}/>",
        _text(left + length + 6, y + 11, f"{value:.1f}", weight=weight),
    ]


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' "
        f"font-weight='{weight}' fill='{TEXT}'>{escape(text)}</text>"
    )
