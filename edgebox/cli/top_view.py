"""What `edgebox top` shows and what keys do to it. Pure: no terminal, no socket, no clock.

view, told → rich's lines          view, key → the next view
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgebox.cli.control import Told
from edgebox.cli.panels import LISTINGS, Listing, headline, lines, ordered
from edgebox.cli.words import cut

LEAST = 7  # lines that a table gets of a screen that is too low for all: title, head, keys, rows
WIDE = 100  # columns from which on there is room between them

HELP = "u p w r e tables · s S sort · / filter · ↑ ↓ Enter detail · space hold · q quit"


@dataclass(frozen=True, slots=True)
class View:
    """What the operator has chosen. `sort` and `down` are None for a table's own order."""

    table: int = 0
    sort: int | None = None
    down: bool | None = None
    wanted: str = ""
    typing: bool = False  # the filter is being written
    row: int = 0
    detail: bool = False
    held: bool = False  # the figures stand still
    done: bool = False

    @property
    def listing(self) -> Listing:
        return LISTINGS[self.table]

    @property
    def column(self) -> int:
        return self.listing.sort if self.sort is None else self.sort

    @property
    def downwards(self) -> bool:
        return self.listing.down if self.down is None else self.down


def press(view: View, key: str) -> View:
    """The view after a key: a character, or "up", "down", "enter", "escape", "backspace"."""
    if view.typing:
        return _type(view, key)
    tables = [listing.key for listing in LISTINGS]
    match key:
        case "q":
            return replace(view, done=True)
        case "escape":
            return replace(view, detail=False) if view.detail else replace(view, wanted="", row=0)
        case "s":
            column = (view.column + 1) % len(view.listing.columns)
            return replace(view, sort=column, down=view.listing.columns[column].is_number, row=0)
        case "S":
            return replace(view, down=not view.downwards, row=0)
        case "/":
            return replace(view, typing=True, detail=False)
        case "up" | "k":
            return replace(view, row=max(0, view.row - 1))
        case "down" | "j":
            return replace(view, row=view.row + 1)
        case "enter":
            return replace(view, detail=not view.detail)
        case " ":
            return replace(view, held=not view.held)
        case "\t":
            return View(table=(view.table + 1) % len(tables), held=view.held)
        case _ if key in tables:
            return View(table=tables.index(key), held=view.held)
        case _:
            return view


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view, typing=False, wanted="", row=0)
        case "backspace":
            return replace(view, wanted=view.wanted[:-1], row=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, wanted=view.wanted + key, row=0)
        case _:
            return view


def settle(view: View, told: Told) -> View:
    """The view with its row among those that there are."""
    last = len(_rows(view, told)) - 1
    return view if view.row <= last else replace(view, row=max(0, last))


def draw(view: View, told: Told, width: int, height: int, note: str = "") -> RenderableType:
    """A whole screen. `note` is told in the last line, in place of the keys."""
    rows = _rows(view, told)
    upper: list[RenderableType] = [headline(told), *lines(told, width), Text()]
    upper = upper[: max(1, height - LEAST)]  # of what stands above, the first lines tell most
    room = max(1, height - len(upper) - 3)
    body = _detail(view, rows) if view.detail and rows else _table(view, rows, room, width)
    return Group(*upper, _title(view, len(rows)), body, _footer(view, note, width))


def _rows(view: View, told: Told) -> list[list[str]]:
    return ordered(view.listing, told, view.column, view.downwards, view.wanted)


def _title(view: View, count: int) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for listing in LISTINGS:
        chosen = listing is view.listing
        line.append(f" {listing.key} ", style="reverse bold" if chosen else "dim")
        line.append(f" {listing.title}  " if chosen else " ", style="bold" if chosen else "")
    arrow = "↓" if view.downwards else "↑"
    line.append(f"{count} by {view.listing.columns[view.column].title} {arrow}", style="dim")
    if view.wanted or view.typing:
        line.append(f"  /{view.wanted}{'_' if view.typing else ''}", style="yellow")
    return line


def _table(view: View, rows: list[list[str]], room: int, width: int) -> RenderableType:
    if not rows:
        return Text("  nothing" + (" that has this in it" if view.wanted else ""), style="dim")
    first = max(0, view.row - room + 1)
    table = Table(box=None, padding=(0, 2 if width >= WIDE else 1, 0, 0), width=width)
    for number, column in enumerate(view.listing.columns):
        widest = number == _widest(rows)
        table.add_column(
            column.title + ("*" if number == view.column else ""),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if widest else None,
        )
    for number, row in enumerate(rows[first : first + room], first):
        style = "reverse" if number == view.row else ""
        table.add_row(*(Text(cell, overflow="ellipsis") for cell in row), style=style)
    return table


def _widest(rows: list[list[str]]) -> int:
    """The column that gets what width is left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return widths.index(max(widths))


def _detail(view: View, rows: list[list[str]]) -> RenderableType:
    """One row, a line each cell, in full."""
    row = rows[min(view.row, len(rows) - 1)]
    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    for column, cell in zip(view.listing.columns, row, strict=True):
        table.add_row(Text(column.title, style="cyan"), Text(cell, overflow="fold"))
    return table


def _footer(view: View, note: str, width: int) -> Text:
    if note:
        return Text(cut(note, width), style="red")
    return Text(cut(("HELD   " if view.held else "") + HELP, width), style="dim")
