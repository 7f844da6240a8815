"""gigabit.svg: throughput, memory and CPU over time, three panels under each other. Pure.

A column a server, each over its own course, all at the same scales, so that columns can be
compared by eye. Bands are the crowds, with their sizes; what lies between is rest. Lines differ in
their strokes as well as in colour. No background, and greys that hold on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from perf.chart import ACCENT, FONT, PLAIN, TEXT
from perf.gigabit.results import Outcome
from perf.gigabit.sample import Second

LEFT, TOP, MARGIN = 56, 64, 14  # room for the scale's numbers, and above the first panel
WIDTH, HEIGHT = 300, 130  # of one panel
GAP, LEGEND = 18, 40  # between columns, and above each panel
NARROWEST = 1020  # for the lines of facts
FACT = 16  # a line of facts at the foot


@dataclass(frozen=True)
class Line:
    """One line of a panel: its name, how it is drawn, its value in a second of a course.

    The value is given the second and the course's first one.
    """

    name: str
    colour: str
    dashes: str
    width: float
    value: Callable[[Second, Second], float]


@dataclass(frozen=True)
class Panel:
    """One row of the picture: how far its scale goes at least, and at most."""

    title: str
    least: float
    most: float
    lines: tuple[Line, ...]


PANELS = (
    Panel(
        "throughput, MB/s",
        125.0,
        160.0,  # a new crowd reads for a moment what waited for it in buffers: much more
        (
            Line("on the link", ACCENT, "", 1.8, lambda s, _: s.wire / 1e6),
            Line("bodies at the clients", PLAIN, "4 3", 1.2, lambda s, _: s.payload / 1e6),
        ),
    ),
    Panel(
        "memory, MB",
        10.0,
        math.inf,
        (
            Line("its processes", ACCENT, "", 1.8, lambda s, _: s.memory / 1e6),
            Line("its sockets", PLAIN, "", 1.4, lambda s, _: s.sockets / 1e6),
            Line(
                "more in use on the whole system",
                TEXT,
                "2 3",
                1.2,
                lambda s, first: max(0, s.system - first.system) / 1e6,
            ),
        ),
    ),
    Panel(
        "CPU, % of a core",
        25.0,
        math.inf,
        (
            Line("user", ACCENT, "", 1.8, lambda s, _: s.user * 100),
            Line("kernel", PLAIN, "", 1.4, lambda s, _: s.kernel * 100),
            Line("softirq, whole core", TEXT, "2 3", 1.2, lambda s, _: s.softirq * 100),
        ),
    ),
)


def plot(outcomes: Mapping[str, Outcome], facts: Sequence[str]) -> str:
    """The SVG document of every server that has a course."""
    courses = {name: list(it.seconds) for name, it in outcomes.items() if it.seconds}
    width = max(NARROWEST, LEFT + len(courses) * (WIDTH + GAP) + MARGIN)
    height = TOP + len(PANELS) * (HEIGHT + LEGEND) + FACT * len(facts) + MARGIN
    shapes = [text(LEFT, 22, "A 10 GB file over a gigabit", size=15)]
    for column, name in enumerate(courses):
        shapes.append(text(LEFT + column * (WIDTH + GAP), 46, name, size=13, weight="bold"))
    for row, panel in enumerate(PANELS):
        y = TOP + row * (HEIGHT + LEGEND) + LEGEND - 14
        highest = scale(panel, courses.values())
        shapes += legend(panel, y - 8)
        shapes += rules(highest, y, len(courses))
        for column, seconds in enumerate(courses.values()):
            shapes += curves(panel, seconds, highest, LEFT + column * (WIDTH + GAP), y)
    foot = TOP + len(PANELS) * (HEIGHT + LEGEND) + FACT
    shapes += [text(LEFT, foot + FACT * at, fact, size=11) for at, fact in enumerate(facts)]
    body = "\n".join(shapes)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        f"height='{height}' role='img' "
        f"aria-label='Throughput, memory and CPU over time, by server' {FONT}>\n{body}\n</svg>\n"
    )


def scale(panel: Panel, courses: Iterable[Sequence[Second]]) -> float:
    """The top of a panel's scale: a round number, which no line of any course passes."""
    values = [
        line.value(second, seconds[0])
        for seconds in courses
        for second in seconds
        for line in panel.lines
    ]
    return round_up(min(panel.most, max([panel.least, *values])))


def round_up(value: float) -> float:
    """The next number whose quarters are round too."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * 0.999999)


def legend(panel: Panel, y: float) -> list[str]:
    """The panel's title and a stroke and a name for each line."""
    shapes = [text(LEFT, y, panel.title, weight="bold")]
    x = LEFT + 150.0
    for line in panel.lines:
        shapes.append(f"<path d='M{x} {y - 4}h24' {paint(line)}/>")
        shapes.append(text(x + 30, y, line.name))
        x += 60 + 6.5 * len(line.name)
    return shapes


def rules(highest: float, y: float, columns: int) -> list[str]:
    """The scale: four rules across all columns, with their numbers."""
    right = LEFT + columns * (WIDTH + GAP) - GAP
    shapes = []
    for part in range(5):
        at = y + HEIGHT * (1 - part / 4)
        shapes.append(
            f"<path d='M{LEFT} {at:.1f}H{right}' stroke='{TEXT}' stroke-width='0.5' opacity='0.4'/>"
        )
        shapes.append(text(LEFT - 6, at + 4, f"{highest * part / 4:,.4g}", anchor="end", size=11))
    return shapes


def curves(
    panel: Panel, seconds: Sequence[Second], highest: float, x: float, y: float
) -> list[str]:
    """One course in one panel: the bands of its crowds, then its lines."""
    end = max(second.at for second in seconds)

    def across(at: float) -> float:
        return x + WIDTH * at / end

    shapes = []
    for clients, (first, last) in bands(seconds).items():
        left, wide = across(first), across(last) - across(first)
        shapes.append(
            f"<rect x='{left:.1f}' y='{y}' width='{wide:.1f}' height='{HEIGHT}' "
            f"fill='{TEXT}' opacity='0.12'/>"
        )
        shapes.append(text(left + wide / 2, y + 12, f"{clients:,}", anchor="middle", size=10))
    for line in panel.lines:
        shares = [min(1.0, line.value(s, seconds[0]) / highest) for s in seconds]
        points = " ".join(
            f"{across(second.at):.1f},{y + HEIGHT * (1 - share):.1f}"
            for second, share in zip(seconds, shares, strict=True)
        )
        shapes.append(f"<polyline points='{points}' {paint(line)}/>")
    return shapes


def bands(seconds: Sequence[Second]) -> dict[int, tuple[float, float]]:
    """When each crowd was there, from its first second to its last."""
    found: dict[int, tuple[float, float]] = {}
    for second in seconds:
        if second.clients:
            first, _ = found.get(second.clients, (second.at - second.seconds, 0.0))
            found[second.clients] = (first, second.at)
    return found


def paint(line: Line) -> str:
    dashes = f" stroke-dasharray='{line.dashes}'" if line.dashes else ""
    return (
        f"fill='none' stroke='{line.colour}' stroke-width='{line.width}'{dashes} "
        "stroke-linejoin='round'"
    )


def text(
    x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' "
        f"font-weight='{weight}' fill='{TEXT}'>{escape(words)}</text>"
    )
