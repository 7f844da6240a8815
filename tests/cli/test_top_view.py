"""What keys do to `edgebox top`, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from edgebox.cli.panels import LISTINGS
from edgebox.cli.top import keys_of
from edgebox.cli.top_view import View, draw, press, settle

Told = Callable[..., dict[str, Any]]


def shown(
    view: View, told: dict[str, Any], width: int = 100, height: int = 30, note: str = ""
) -> str:
    console = Console(width=width, height=height, highlight=False, file=StringIO())
    console.print(draw(settle(view, told), told, width, height, note))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def after(*keys: str) -> View:
    view = View()
    for key in keys:
        view = press(view, key)
    return view


def test_it_begins_with_the_hottest_urls(told: Told) -> None:
    text = shown(View(), told())
    assert text.index("example.com/�[2Jb") < text.index("example.com/a")
    assert "2 by requests ↓" in text
    assert "50.0 %" in text


@pytest.mark.parametrize(
    ("key", "text"),
    [("p", "http://b:1"), ("w", "draining"), ("r", "text/html"), ("e", "upstream http://b:1 is")],
)
def test_each_table_has_its_key(told: Told, key: str, text: str) -> None:
    assert text in shown(after(key), told())


def test_tab_goes_round() -> None:
    assert after(*["\t"] * len(LISTINGS)).table == 0


def test_sorting_goes_through_the_columns_and_turns(told: Told) -> None:
    by_octets = after("s")
    text = shown(by_octets, told())
    assert text.index("example.com/a") < text.index("example.com/�[2Jb")
    text = shown(press(by_octets, "S"), told())
    assert text.index("example.com/�[2Jb") < text.index("example.com/a")
    assert after(*"s" * len(LISTINGS[0].columns)).column == View().column


def test_a_filter_shows_rows_that_have_it(told: Told) -> None:
    view = after("p", "/", "B", ":", "x", "backspace")
    assert view.typing
    text = shown(view, told())
    assert "http://a:1" not in text
    assert "/B:_" in text
    chosen = press(view, "enter")
    assert not chosen.typing
    assert "1 by" in shown(chosen, told())
    assert "http://a:1" in shown(press(chosen, "escape"), told())
    assert "nothing that has this in it" in shown(after("/", "z", "q"), told())


def test_letters_in_a_filter_are_no_commands() -> None:
    view = after("/", "q", "w", " ", "s")
    assert (view.wanted, view.done, view.table) == ("qw s", False, 0)
    assert after("/", "q", "escape").wanted == ""


def test_a_row_is_chosen_and_shown_in_full(told: Told) -> None:
    long = "example.com/" + "x" * 300
    answer = told(sheet={"hot": [["a/", 9, 9], [long, 1, 1]]})
    text = shown(after("down", "down", "down", "enter"), answer)
    assert "".join(text.split()).count("x" * 300) == 1
    assert "requests" in text
    assert "a/ " not in text.split("by requests")[1]
    assert not after("enter", "escape").detail


def test_there_is_no_row_beyond_the_last(told: Told) -> None:
    assert settle(after(*["down"] * 9), told()).row == 1
    assert settle(after("up"), told()).row == 0
    assert settle(after("down"), told(sheet={"hot": []})).row == 0


def test_a_long_table_moves_with_the_chosen_row(told: Told) -> None:
    answer = told(sheet={"hot": [[f"u{n:03}", 1000 - n, 1] for n in range(100)]})
    assert "u000" in shown(View(), answer, height=20)
    text = shown(View(row=60), answer, height=20)
    assert "u060" in text
    assert "u000" not in text


def test_what_it_draws_fits_the_screen(told: Told) -> None:
    answer = told(sheet={"hot": [[f"u{n:03}" * 50, 1000 - n, 1] for n in range(100)]})
    for width, height in ((80, 24), (40, 16), (200, 60)):
        lines = shown(View(), answer, width, height).rstrip("\n").splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= height


def test_space_holds_and_q_ends(told: Told) -> None:
    assert after(" ").held
    assert not after(" ", " ").held
    assert "HELD" in shown(after(" "), told())
    assert after("q").done


def test_a_note_takes_the_place_of_the_keys(told: Told) -> None:
    text = shown(View(), told(), note="the server is gone")
    assert "the server is gone" in text
    assert "q quit" not in text


@given(
    st.lists(
        st.sampled_from(
            [*"upwresSjkq/ \t", "up", "down", "enter", "escape", "backspace", "ä", "é"]
        ),
        max_size=30,
    )
)
def test_no_key_can_break_it(keys: list[str]) -> None:
    view = after(*keys)
    assert view.row >= 0
    assert view.listing.columns[view.column]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOA", ["up"]),
        ("\r\n\x7f\x1b", ["enter", "enter", "backspace", "escape"]),
        ("\x1b[5~\x1b[1;5Cq", ["q"]),
        ("/ä", ["/", "ä"]),
        ("", []),
    ],
)
def test_what_a_terminal_sends_is_keys(sent: str, keys: list[str]) -> None:
    assert keys_of(sent) == keys


@given(st.text())
def test_whatever_a_terminal_sends_is_keys_or_nothing(sent: str) -> None:
    assert all(key for key in keys_of(sent))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (20, 8)])
@pytest.mark.parametrize("key", [listing.key for listing in LISTINGS])
def test_rows_and_keys_are_seen_on_a_low_screen(
    told: Told, key: str, width: int, height: int
) -> None:
    text = shown(after(key), told(), width, height).splitlines()
    assert len(text) <= height
    assert text[-1].startswith("u p w r e")
    assert len(text) >= 5  # the headline, which table, its head, a row, the keys


def test_a_narrow_terminal_has_every_column_of_workers_and_upstreams(told: Told) -> None:
    for key, words in (("w", "generation requests* clients late state"), ("p", "answered failed")):
        text = shown(after(key), told(), 80, 24)
        assert all(word in text for word in words.split())
        assert text.count("…") <= 1  # lines above may be cut
