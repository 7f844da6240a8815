from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from edgebox.config.schema import Status
from edgebox.epoch import Moment
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.status import StatusHandler
from edgebox.http.faults import Fault
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import Request, Response, Stream
from edgebox.http.target import Target, parse_target
from edgebox.observe.pages import Pages


class NoBody:
    finished = True
    length = 0

    async def discard(self, limit: int) -> Fault | None:
        return None


class SomeBody(NoBody):
    async def discard(self, limit: int) -> Fault | None:
        return Fault.BODY_TOO_LARGE


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages.create()
    made.slot(0).claim(4711, 1)
    made.slot(0).publish({"requests": 5, "connections_limit": 9}, {}, b"{}")
    yield made
    made.close()


def at(second: int) -> Moment:
    return Moment(1_800_000_000 + second, float(second), float(second))


@pytest.fixture
def handler(pages: Pages) -> StatusHandler:
    return StatusHandler(pages, Status(listen="x", path="/box"), at(0))


async def ask(
    handler: StatusHandler, target: bytes, *, method: bytes = b"GET", peer: bytes = b"127.0.0.1",
    fields: Fields = (), body: type[NoBody] = NoBody,
) -> Response:  # fmt: skip
    parsed = parse_target(method, target)
    assert isinstance(parsed, Target)
    request = Request(method, parsed, b"box", Headers(fields))

    async def interim(status: int, fields: Fields) -> None:
        raise AssertionError

    return await handler.answer(Exchange(request, body(), peer, interim))  # type: ignore[arg-type]


def field(response: Response, name: bytes) -> bytes | None:
    return dict(response.fields).get(name)


async def test_the_page_is_all_in_one_piece(handler: StatusHandler) -> None:
    response = await ask(handler, b"/box")
    assert isinstance(response.body, bytes)
    page = response.body.decode()
    assert page.startswith("<!doctype html>")
    assert "/* page." not in page  # what was to be put in is in
    for part in ('src="', "@import", "url(", "https://", 'rel="stylesheet"'):
        assert part not in page
    policy = field(response, b"Content-Security-Policy")
    assert policy is not None
    assert b"default-src 'none'" in policy
    assert not response.remember


async def test_json_and_auto_are_of_this_second(handler: StatusHandler, pages: Pages) -> None:
    told = await ask(handler, b"/box?json")
    assert isinstance(told.body, bytes)
    assert json.loads(told.body)["totals"]["requests"] == 5
    pages.slot(0).publish({"requests": 6}, {}, b"{}")
    handler.turn(at(1))
    told = await ask(handler, b"/box?json")
    assert isinstance(told.body, bytes)
    assert json.loads(told.body)["rates"]["requests"] == 1
    auto = await ask(handler, b"/box?auto")
    assert isinstance(auto.body, bytes)
    assert auto.body.startswith(b"Total Accesses: 6\n")
    assert field(auto, b"Cache-Control") == b"no-store"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (b"", b"application/openmetrics-text"),
        (b"*/*", b"application/openmetrics-text"),
        (b"application/openmetrics-text;version=1.0.0,text/plain;q=0.5", b"application/openm"),
        (b"text/plain;version=0.0.4", b"text/plain; version=0.0.4"),
    ],
)
async def test_metrics_come_in_the_form_that_is_accepted(
    handler: StatusHandler, accept: bytes, kind: bytes
) -> None:
    fields: Fields = ((b"Accept", accept),) if accept else ()
    response = await ask(handler, b"/metrics", fields=fields)
    told = field(response, b"Content-Type")
    assert told is not None
    assert told.startswith(kind)
    assert isinstance(response.body, bytes)
    assert response.body.endswith(b"# EOF\n")


async def test_no_worker_tells_less_than_another_told_before(
    handler: StatusHandler, pages: Pages
) -> None:
    """Each is asked in turn by whoever scrapes, and a counter never goes back."""
    await ask(handler, b"/box?json")  # looked in this second
    pages.slot(0).publish({"requests": 7}, {}, b"{}")
    other = StatusHandler(pages, Status(listen="x", path="/box"), at(0))
    for each in (other, handler):
        told = await ask(each, b"/metrics")
        assert isinstance(told.body, bytes)
        assert b'edgebox_requests_total{lane="task"} 7\n' in told.body


async def test_only_networks_that_are_listed_may_look(pages: Pages) -> None:
    handler = StatusHandler(pages, Status(listen="x", allow=("10.0.0.0/8",)), at(0))
    assert (await ask(handler, b"/", peer=b"10.1.2.3")).status == 200
    assert (await ask(handler, b"/", peer=b"::ffff:10.1.2.3")).status == 200
    for peer in (b"127.0.0.1", b"192.0.2.1", b"::1"):
        for target in (b"/", b"/metrics", b"/?events", b"/nowhere"):
            assert (await ask(handler, target, peer=peer)).status == 403


async def test_other_paths_and_methods_are_refused(handler: StatusHandler) -> None:
    assert (await ask(handler, b"/")).status == 302
    assert (await ask(handler, b"/box/")).status == 404
    assert (await ask(handler, b"/box", method=b"POST")).status == 405
    assert (await ask(handler, b"/box", body=SomeBody)).status == 413
    assert (await ask(handler, b"/box", method=b"HEAD")).status == 200
    head = await ask(handler, b"/box?events", method=b"HEAD")
    assert head.body == b""


async def test_who_watches_hears_of_each_second_until_the_worker_drains(
    handler: StatusHandler, pages: Pages
) -> None:
    response = await ask(handler, b"/box?events")
    assert isinstance(response.body, Stream)
    heard: list[bytes] = []

    async def listen(stream: Stream) -> None:
        async for event in stream.chunks:
            heard.append(event)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, response.body)
        for second in range(1, 4):
            await trio.testing.wait_all_tasks_blocked()
            pages.slot(0).publish({"requests": 5 + second}, {}, b"{}")
            handler.turn(at(second))
        await trio.testing.wait_all_tasks_blocked()
        handler.end()
    await response.aclose()
    assert heard[0] == b"retry: 1000\n\n"
    told = [json.loads(event.removeprefix(b"data: ")) for event in heard[1:]]
    assert [each["totals"]["requests"] for each in told] == [5, 6, 7, 8]
    assert all(event.endswith(b"\n\n") for event in heard)
