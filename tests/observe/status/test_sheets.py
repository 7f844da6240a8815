from __future__ import annotations

from edgebox.observe.status.sheets import Server, Sheet, Shelf, merge, read_sheet


def test_a_sheet_of_another_shape_is_an_empty_one() -> None:
    assert read_sheet({"hot": "no table"}) == Sheet()
    assert read_sheet({}) == Sheet()
    assert read_sheet({"hot": [["/", 1, 2]], "unheard-of": 1}).hot == [("/", 1, 2)]


def test_what_workers_count_of_the_same_adds_up() -> None:
    one = Sheet(hot=[("a", 5, 50), ("b", 4, 40)], ledger={"heads": 1})
    other = Sheet(hot=[("b", 3, 30)], ledger={"heads": 2, "paths": 3})
    both = merge([one, other])
    assert both.hot == [("b", 7, 70), ("a", 5, 50)]
    assert both.ledger == {"heads": 3, "paths": 3}


def test_shelves_come_largest_first() -> None:
    shelf = Shelf("x", "images", 2, 10)
    both = merge([Sheet(ram=[shelf, Shelf("x", "pages", 1, 15)]), Sheet(ram=[shelf])])
    assert both.ram == [Shelf("x", "images", 4, 20), Shelf("x", "pages", 1, 15)]


def test_of_a_server_the_worst_standing_is_shown() -> None:
    up = Server("app", "http://a", "up", active=1, answered=10)
    ejected = Server("app", "http://a", "ejected", active=2, answered=5, failed=3)
    (server,) = merge([Sheet(upstreams=[up]), Sheet(upstreams=[ejected])]).upstreams
    assert (server.standing, server.active, server.answered, server.failed) == ("ejected", 3, 15, 3)
    (server,) = merge([Sheet(upstreams=[up])] * 2).upstreams
    assert server.standing == "up"


def test_the_latest_error_comes_first() -> None:
    sheets = [Sheet(errors=[(n, "warning", str(n)) for n in range(w, 40, 2)]) for w in (0, 1)]
    assert [at for at, _, _ in merge(sheets).errors] == list(range(39, 19, -1))


def test_the_curve_is_of_all_their_ram() -> None:
    sheets = [Sheet(what_if=[(100, 0.5), (200, 1.0)]), Sheet(what_if=[(50, 0.7), (150, 0.8)])]
    assert merge([*sheets, Sheet()]).what_if == [(150, 0.6), (350, 0.9)]


def test_of_no_worker_there_is_nothing() -> None:
    assert merge([]) == Sheet()
