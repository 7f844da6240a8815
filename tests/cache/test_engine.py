"""The cache before a real app: what is asked of it, what it is spared, what clients get."""

from __future__ import annotations

import pytest
import trio

from edgebox.http.dates import format_date, parse_date
from tests.origin import Call, age, proxied
from tests.wire import PATIENCE, Answer, request

HOUR = "Cache-Control: max-age=3600"


def member(answer: Answer) -> list[str]:
    """What Cache-Status says, without the name."""
    name, *parts = answer.headers["cache-status"].split("; ")
    assert name == "edgebox"
    return parts


def fields(answer: Answer, name: str) -> list[str]:
    return [value for given, value in answer.raw_headers if given == name]


async def numbered(call: Call) -> None:
    """Tells how often the app was asked."""
    numbered.count += 1  # type: ignore[attr-defined]
    await call.answer(HOUR, body=b"%d" % numbered.count)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _begin_counting() -> None:
    numbered.count = 0  # type: ignore[attr-defined]


# --- hits and misses --------------------------------------------------------------------------


async def test_the_second_answer_comes_from_the_store_and_grows_old() -> None:
    async with proxied(numbered) as (server, origin):
        first, second = await server.get("/a?x=1"), await server.get("/a?x=1")
        assert (first.body, second.body) == (b"1", b"1")
        assert member(first) == ["fwd=uri-miss", "fwd-status=200", "stored", "ttl=3600"]
        assert "age" not in first.headers
        assert member(second) == ["hit", "ttl=3600"]
        age(server, 10)
        third = await server.get("/a?x=1")
        assert (third.headers["age"], member(third)) == ("10", ["hit", "ttl=3590"])
        assert origin.seen == ["GET /a?x=1"]


async def test_age_goes_by_the_steady_clock_alone() -> None:
    async with proxied(numbered) as (server, origin):
        await server.get("/a")
        server.clocks.wall += 10_000_000  # type: ignore[attr-defined]
        age(server, 5, wall=False)
        assert (await server.get("/a")).headers["age"] == "5"
        server.clocks.wall -= 20_000_000  # type: ignore[attr-defined]
        age(server, 5, wall=False)
        assert (await server.get("/a")).headers["age"] == "10"
        assert len(origin.calls) == 1


async def test_an_answer_that_is_stale_and_has_no_validator_is_asked_for_anew() -> None:
    async with proxied(numbered) as (server, origin):
        await server.get("/a")
        age(server, 3601)
        again = await server.get("/a")
        assert again.body == b"2"
        assert member(again)[0] == "fwd=stale"
        assert "if-none-match" not in origin.calls[1].headers


async def test_what_a_route_is_set_not_to_cache_passes() -> None:
    async with proxied(numbered, route={"cache": False}) as (server, _):
        assert [(await server.get("/a")).body for _ in range(2)] == [b"1", b"2"]
        answer = await server.get("/a")
        assert member(answer) == ["fwd=bypass", "fwd-status=200", "detail=operator-off"]


async def test_a_get_with_content_is_never_answered_from_the_store() -> None:
    async with proxied(numbered) as (server, origin):
        await server.get("/a")
        async with server.connect() as client:
            await client.send(request("/a", "Content-Length: 3") + b"abc")
            answer = await client.read_answer()
        assert answer.body == b"2"
        assert member(answer) == ["fwd=bypass", "fwd-status=200", "detail=content"]
        assert origin.calls[1].body == b"abc"


async def test_only_if_cached_never_asks_the_app() -> None:
    async with proxied(numbered) as (server, origin):
        refused = await server.get("/a", "Cache-Control: only-if-cached")
        assert (refused.status, refused.body) == (504, b"504 Gateway Timeout\n")
        assert member(refused) == ["detail=only-if-cached"]
        assert origin.calls == []
        await server.get("/a")
        assert (await server.get("/a", "Cache-Control: only-if-cached")).body == b"1"


async def test_a_reload_asks_anew_and_renews_what_others_get() -> None:
    async with proxied(numbered) as (server, origin):
        await server.get("/a")
        assert (await server.get("/a", "Cache-Control: no-cache")).body == b"2"
        assert (await server.get("/a")).body == b"2"  # not what the lane remembered of this second
        assert len(origin.calls) == 2


async def test_clients_cannot_make_the_app_work_where_that_is_switched_off() -> None:
    async with proxied(numbered, cache={"request_directives": False}) as (server, _):
        await server.get("/a")
        assert (await server.get("/a", "Cache-Control: no-cache", "Pragma: no-cache")).body == b"1"


async def test_who_bears_a_certain_cookie_gets_nothing_stored() -> None:
    async with proxied(numbered, route={"bypass_cookies": ("wp_*",)}) as (server, origin):
        await server.get("/a")
        for _ in range(2):
            mine = await server.get("/a", "Cookie: a=b; wp_user=1", 'If-None-Match: "1"')
            assert member(mine) == ["fwd=bypass", "fwd-status=200", "detail=operator-bypass"]
        assert [call.headers.get("if-none-match") for call in origin.calls] == [None, '"1"', '"1"']
        assert (await server.get("/a", "Cookie: a=b")).body == b"1"


# --- validation -------------------------------------------------------------------------------


async def test_what_is_stale_is_validated_and_then_fresh_again() -> None:
    async def app(call: Call) -> None:
        if "if-none-match" in call.headers:
            await call.answer(HOUR, 'ETag: "v1"', "X-Seen: twice", status=304)
        else:
            await call.answer(HOUR, 'ETag: "v1"', "Last-Modified: Mon, 30 Nov 1998 10:00:00 GMT",
                              "X-Seen: once", body=b"whole")  # fmt: skip

    async with proxied(app) as (server, origin):
        await server.get("/a", 'If-None-Match: "other"')
        assert "if-none-match" not in origin.calls[0].headers
        age(server, 4000)
        renewed = await server.get("/a", "If-None-Match: *", "Range: bytes=0-1", "X-Mine: 1")
        assert renewed.status == 304
        asked = origin.calls[1].headers
        assert asked["if-none-match"] == '"v1"'
        assert asked["if-modified-since"] == "Mon, 30 Nov 1998 10:00:00 GMT"
        assert "range" not in asked
        assert asked["x-mine"] == "1"
        hit = await server.get("/a")
        assert (hit.body, hit.headers["x-seen"], hit.headers["age"]) == (b"whole", "twice", "0")
        assert hit.headers["content-length"] == "5"
        assert len(origin.calls) == 2


async def test_a_304_about_nothing_that_is_stored_is_asked_again_without_conditions() -> None:
    async def app(call: Call) -> None:
        if "if-none-match" in call.headers:
            await call.answer(HOUR, 'ETag: "other"', status=304)
        else:
            await call.answer(HOUR, f'ETag: "{len(origin.calls)}"', body=b"%d" % len(origin.calls))

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 4000)
        assert (await server.get("/a")).body == b"3"
        assert "if-none-match" not in origin.calls[2].headers


async def test_a_304_that_says_private_takes_what_was_stored_away() -> None:
    async def app(call: Call) -> None:
        if "if-none-match" in call.headers:
            await call.answer("Cache-Control: private", 'ETag: "1"', status=304)
        else:
            await call.answer(HOUR, 'ETag: "1"', body=b"mine")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 4000)
        assert (await server.get("/a")).body == b"mine"
        await server.get("/a")
        assert "if-none-match" not in origin.calls[2].headers


async def test_the_cookie_of_a_304_is_for_who_asked_and_nobody_else() -> None:
    async def app(call: Call) -> None:
        if "if-none-match" in call.headers:
            await call.answer(HOUR, 'ETag: "1"', "Set-Cookie: id=7", status=304)
        else:
            await call.answer(HOUR, 'ETag: "1"', body=b"x")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 4000)
        assert (await server.get("/a")).headers["set-cookie"] == "id=7"
        assert "set-cookie" not in (await server.get("/a")).headers
        assert len(origin.calls) == 2


# --- stale, where that is allowed -------------------------------------------------------------


async def test_stale_while_revalidate_answers_at_once_and_asks_once() -> None:
    asked = trio.Event()

    async def app(call: Call) -> None:
        if len(origin.calls) > 1:
            await asked.wait()
        await call.answer("Cache-Control: max-age=1, stale-while-revalidate=60",
                          body=b"%d" % len(origin.calls))  # fmt: skip

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 10)
        for _ in range(5):
            stale = await server.get("/a")
            assert (stale.body, member(stale)[0]) == (b"1", "hit")
            assert "detail=while-revalidate" in member(stale)
        assert len(origin.calls) == 2
        asked.set()
        with trio.fail_after(PATIENCE):
            while (await server.get("/a")).body != b"2":
                await trio.sleep(0.005)
        assert len(origin.calls) == 2
        age(server, 100)  # out of the window: the client waits
        assert (await server.get("/a")).body == b"3"


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_stale_if_error_stands_in_for_an_error(status: int) -> None:
    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await call.answer("Cache-Control: max-age=1, stale-if-error=60", body=b"good")
        else:
            await call.answer("Cache-Control: max-age=60", status=status, body=b"bad")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 10)
        stale = await server.get("/a")
        assert (stale.status, stale.body) == (200, b"good")
        assert member(stale) == [
            "fwd=stale", f"fwd-status={status}", "ttl=-9", "detail=stale-if-error",
        ]  # fmt: skip
        age(server, 100)
        assert (await server.get("/a")).status == status


async def test_an_error_without_anything_stored_is_the_answer() -> None:
    async def app(call: Call) -> None:
        await call.answer(status=503, body=b"down")

    async with proxied(app) as (server, _):
        answer = await server.get("/a")
        assert (answer.status, answer.body) == (503, b"down")


@pytest.mark.parametrize(
    ("control", "status"),
    [("max-age=1", 200), ("max-age=1, must-revalidate", 502), ("s-maxage=1", 502)],
)
async def test_an_app_that_cannot_be_reached_is_bridged_unless_that_is_forbidden(
    control: str, status: int
) -> None:
    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await call.answer(f"Cache-Control: {control}", body=b"good")
        else:
            await call.reset()

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 10)
        answer = await server.get("/a")
        assert answer.status == status
        assert ("detail=disconnected" in member(answer)) is (status == 200)
        head = await server.get("/a", method="HEAD")
        assert head.status == status


async def test_what_cannot_be_answered_says_why_it_was_asked_for() -> None:
    async def app(call: Call) -> None:
        await call.reset()

    async with proxied(app) as (server, _):
        answer = await server.get("/a")
        assert (answer.status, member(answer)) == (502, ["fwd=uri-miss"])


# --- HEAD -------------------------------------------------------------------------------------


async def test_head_is_answered_from_a_stored_get() -> None:
    async with proxied(numbered) as (server, origin):
        got = await server.get("/a")
        head = await server.get("/a", method="HEAD")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "1")
        assert member(head)[0] == "hit"
        assert head.headers["cache-control"] == got.headers["cache-control"]
        assert origin.seen == ["GET /a"]


async def test_an_answer_to_head_is_never_stored_as_one_to_get() -> None:
    async with proxied(numbered) as (server, origin):
        await server.get("/a", method="HEAD")
        assert (await server.get("/a")).body == b"2"
        assert origin.seen == ["HEAD /a", "GET /a"]


async def test_a_head_renews_a_stale_get() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, 'ETag: "1"', body=b"same")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 4000)
        assert (await server.get("/a", method="HEAD")).headers["content-length"] == "4"
        assert (await server.get("/a")).body == b"same"
        assert origin.seen == ["GET /a", "HEAD /a"]


async def test_a_head_that_tells_another_length_outdates_a_stored_get() -> None:
    async def app(call: Call) -> None:
        await call.answer("Cache-Control: max-age=10", body=b"x" * len(origin.calls))

    async with proxied(app) as (server, origin):
        await server.get("/a")
        await server.get("/a", "Cache-Control: no-cache", method="HEAD")
        assert (await server.get("/a")).body == b"xxx"
        assert origin.seen == ["GET /a", "HEAD /a", "GET /a"]


# --- ranges and conditions --------------------------------------------------------------------


async def digits(call: Call) -> None:
    await call.answer(HOUR, 'ETag: "1"', "Content-Type: text/plain", body=b"0123456789")


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("wanted", "body", "position"),
    [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-1", b"9", "bytes 9-9/10"),
    ],
)
async def test_a_range_is_cut_from_the_whole_that_is_asked_for(
    wanted: str, body: bytes, position: str, stored: bool
) -> None:
    async with proxied(digits) as (server, origin):
        if stored:
            await server.get("/a")
        async with server.connect() as client:
            await client.send(request("/a", f"Range: {wanted}"))
            part = await client.read_answer()
            assert (part.status, part.body) == (206, body)
            assert part.headers["content-range"] == position
            await client.send(request("/a"))  # and the connection goes on
            assert (await client.read_answer()).body == b"0123456789"
        assert "range" not in origin.calls[0].headers
        assert len(origin.calls) == 1


async def test_a_part_on_a_miss_does_not_wait_for_the_whole() -> None:
    rest = trio.Event()

    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"01234", length=10)
        await rest.wait()
        await call.send(b"56789")

    async with proxied(app) as (server, origin), server.connect() as client:
        with trio.fail_after(PATIENCE):
            await client.send(request("/a", "Range: bytes=1-2"))
            assert (await client.read_answer()).body == b"12"
            await client.send(request("/a", "Range: bytes=3-4"))
            assert (await client.read_answer()).body == b"34"
            rest.set()
            await client.send(request("/a"))
            assert (await client.read_answer()).body == b"0123456789"
        assert len(origin.calls) == 1


async def test_a_range_beyond_the_end_gets_416_with_a_few_words() -> None:
    async with proxied(digits) as (server, _):
        await server.get("/a")
        answer = await server.get("/a", "Range: bytes=10-")
        assert (answer.status, answer.body) == (416, b"416 Range Not Satisfiable\n")
        assert answer.headers["content-range"] == "bytes */10"
        assert member(answer)[0] == "hit"


@pytest.mark.parametrize("stored", [True, False])
async def test_if_match_that_fails_gets_412_with_a_few_words(stored: bool) -> None:
    async with proxied(digits) as (server, _):
        if stored:
            await server.get("/a")
        answer = await server.get("/a", 'If-Match: "2"')
        assert (answer.status, answer.body) == (412, b"412 Precondition Failed\n")
        assert "cache-status" in answer.headers


@pytest.mark.parametrize("stored", [True, False])
async def test_a_client_that_has_it_gets_304(stored: bool) -> None:
    async with proxied(digits) as (server, origin):
        if stored:
            await server.get("/a")
        answer = await server.get("/a", 'If-None-Match: "1"')
        assert (answer.status, answer.headers["etag"]) == (304, '"1"')
        assert "if-none-match" not in origin.calls[0].headers
        assert (await server.get("/a")).body == b"0123456789"
        assert len(origin.calls) == 1


async def test_date_stands_in_for_last_modified_where_a_client_asks_by_date() -> None:
    async with proxied(numbered) as (server, _):
        date = (await server.get("/a")).headers["date"]
        same = await server.get("/a", f"If-Modified-Since: {date}")
        assert same.status == 304
        now = parse_date(date.encode(), 0)
        assert now is not None
        before = format_date(now - 1).decode()
        assert (await server.get("/a", f"If-Modified-Since: {before}")).status == 200
        # It is no validator: nothing else may be held against it.
        part = await server.get("/a", "Range: bytes=0-0", f"If-Range: {date}")
        assert part.status == 200
        assert (await server.get("/a", f"If-Unmodified-Since: {before}")).status == 200


async def test_what_is_private_is_still_compared_with_what_the_client_has() -> None:
    async def app(call: Call) -> None:
        await call.answer("Cache-Control: private", 'ETag: "1"', body=b"mine")

    async with proxied(app) as (server, origin):
        answer = await server.get("/a", 'If-None-Match: "1"')
        assert (answer.status, answer.body) == (304, b"")
        # Known for one that is not stored: now the app itself is asked.
        await server.get("/a", 'If-None-Match: "1"', "Range: bytes=0-1")
        assert origin.calls[1].headers["if-none-match"] == '"1"'
        assert origin.calls[1].headers["range"] == "bytes=0-1"


async def test_an_app_that_answers_in_parts_on_its_own_is_passed_on_and_not_stored() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, "Content-Range: bytes 0-1/10", status=206, body=b"01")

    async with proxied(app) as (server, origin):
        for _ in range(2):
            answer = await server.get("/a")
            assert (answer.status, answer.body) == (206, b"01")
            assert "detail=partial" in member(answer)
        assert len(origin.calls) == 2


# --- variants ---------------------------------------------------------------------------------


async def by_language(call: Call) -> None:
    language = call.headers.get("accept-language", "-")
    await call.answer(HOUR, "Vary: Accept-Language", body=language.encode())


async def test_variants_are_kept_apart_and_found_again() -> None:
    async with proxied(by_language) as (server, origin):
        for language in ("de", "fr", "de", "fr"):
            assert (
                await server.get("/a", f"Accept-Language: {language}")
            ).body == language.encode()
        assert (await server.get("/a")).body == b"-"
        assert len(origin.calls) == 3


async def test_the_oldest_variants_of_too_many_go() -> None:
    async with proxied(by_language, cache={"variants": 2}) as (server, origin):
        for language in ("de", "fr", "it"):
            age(server, 5)
            await server.get("/a", f"Accept-Language: {language}")
        assert server.worker.caching.engine.statistics()["answers"] == 2
        await server.get("/a", "Accept-Language: it")
        await server.get("/a", "Accept-Language: fr")
        assert len(origin.calls) == 3
        await server.get("/a", "Accept-Language: de")
        assert len(origin.calls) == 4


async def test_a_field_that_we_set_is_compared_as_the_app_got_it() -> None:
    async def app(call: Call) -> None:
        await call.answer(
            HOUR, "Vary: X-Forwarded-For", body=call.headers["x-forwarded-for"].encode()
        )

    async with proxied(app) as (server, origin):
        for claimed in ("", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 127.0.0.1"):
            assert (await server.get("/a", *filter(None, [claimed]))).body == b"127.0.0.1"
        assert len(origin.calls) == 1


async def test_a_field_that_ends_here_cannot_choose_a_variant() -> None:
    async with proxied(by_language) as (server, _):
        tricked = await server.get(
            "/a", "Accept-Language: de", "Connection: accept-language, close"
        )
        assert tricked.body == b"-"
        assert (await server.get("/a", "Accept-Language: de")).body == b"de"


# --- what changes things ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"])
async def test_an_unsafe_request_outdates_what_is_stored_at_once(method: str) -> None:
    async with proxied(numbered) as (server, _):
        for _ in range(3):  # in the lane's memory by now
            assert (await server.get("/a")).body == b"1"
        await server.get("/b")
        assert (await server.get("/a", method=method)).status == 200
        assert (await server.get("/a")).body == b"4"
        assert (await server.get("/b")).body == b"2"


async def test_an_unsafe_request_that_fails_outdates_nothing() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, status=200 if call.method == "GET" else 422, body=b"x")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        await server.get("/a", method="POST")
        await server.get("/a")
        assert origin.seen == ["GET /a", "POST /a"]


async def test_location_and_groups_outdate_what_they_name() -> None:
    async def app(call: Call) -> None:
        if call.method == "POST":
            await call.answer("Location: /list", 'Cache-Group-Invalidation: "g"', status=201)
        elif call.target == "/grouped":
            await call.answer(HOUR, 'Cache-Groups: "g"', body=b"x")
        else:
            await call.answer(HOUR, body=b"x")

    async with proxied(app) as (server, origin):
        for target in ("/list", "/grouped", "/other"):
            await server.get(target)
        await server.get("/new", method="POST")
        origin.calls.clear()
        for target in ("/list", "/grouped", "/other"):
            await server.get(target)
        assert origin.seen == ["GET /list", "GET /grouped"]


async def test_what_a_post_answered_for_its_own_url_serves_later_gets() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, f"Content-Location: {call.target}", "ETag: \"1\"",
                          body=call.method.encode())  # fmt: skip

    async with proxied(app) as (server, origin):
        await server.get("/a")
        async with server.connect() as client:
            await client.send(
                request("/a", "Content-Length: 3", 'If-None-Match: "1"', method="POST") + b"abc"
            )
            posted = await client.read_answer()
        assert (posted.status, posted.body) == (200, b"POST")
        assert "stored" in member(posted)
        assert (await server.get("/a")).body == b"POST"
        assert origin.seen == ["GET /a", "POST /a"]
        assert origin.calls[1].body == b"abc"


async def test_a_post_that_names_another_url_is_not_stored() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, "Content-Location: /b", body=call.method.encode())

    async with proxied(app) as (server, _):
        await server.get("/a", method="POST")
        assert (await server.get("/a")).body == b"GET"
        assert (await server.get("/b")).body == b"GET"


# --- what is stored of an answer --------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "calls", "repeated"), [("refuse", 2, True), ("strip", 1, False), ("keep", 1, True)]
)
async def test_cookies_are_refused_stripped_or_kept(rule: str, calls: int, repeated: bool) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, "Set-Cookie: a=1", "Set-Cookie: b=2", body=b"x")

    async with proxied(app, route={"set_cookie": rule}) as (server, origin):
        assert fields(await server.get("/a"), "set-cookie") == ["a=1", "b=2"]
        second = await server.get("/a")
        assert fields(second, "set-cookie") == (["a=1", "b=2"] if repeated else [])
        assert len(origin.calls) == calls


async def test_cdn_cache_control_rules_here_and_is_passed_on() -> None:
    async def app(call: Call) -> None:
        await call.answer("CDN-Cache-Control: max-age=60", "Cache-Control: no-store", body=b"x")

    async with proxied(app) as (server, origin):
        await server.get("/a")
        hit = await server.get("/a")
        assert (hit.headers["cdn-cache-control"], hit.headers["cache-control"]) == (
            "max-age=60", "no-store",
        )  # fmt: skip
        assert len(origin.calls) == 1


async def test_trailers_reach_who_waited_for_the_answer() -> None:
    async def app(call: Call) -> None:
        await call.begin(HOUR, "Trailer: X-Sum")
        await call.chunk(b"abc")
        await call.send(b"0\r\nX-Sum: 6\r\n\r\n")

    async with proxied(app) as (server, _), server.connect() as client:
        await client.send(request("/a", "Connection: close"))
        assert (await client.read_all()).endswith(b"3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n")


async def test_an_answer_larger_than_what_is_stored_is_passed_on() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"x" * 2000)

    async with proxied(app, cache={"object_size": 1000}) as (server, origin):
        for _ in range(2):
            answer = await server.get("/a")
            assert len(answer.body) == 2000
            assert "detail=too-large" in member(answer)
        assert len(origin.calls) == 2


async def test_interim_answers_reach_who_asked_and_nobody_later() -> None:
    async def app(call: Call) -> None:
        await call.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await call.answer(HOUR, body=b"x")

    async with proxied(app) as (server, _), server.connect() as client:
        await client.send(request("/a", "Connection: close"))
        octets = await client.read_all()
        assert octets.startswith(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK"
        )
        async with server.connect() as second:
            await second.send(request("/a", "Connection: close"))
            octets = await second.read_all()
        assert octets.startswith(b"HTTP/1.1 200 OK")
        assert b"a.css" not in octets


async def test_an_answer_for_one_request_by_its_name_is_nobody_elses() -> None:
    """The app gets an X-Request-Id that no client has sent, and another each time."""

    async def app(call: Call) -> None:
        await call.answer(HOUR, "Vary: X-Request-Id", body=call.headers["x-request-id"].encode())

    async with proxied(app) as (server, origin):
        answers = [await server.get("/a") for _ in range(3)]
        answers += [await server.get("/a", "X-Request-Id: mine") for _ in range(2)]
        assert len({answer.body for answer in answers}) == 4
        assert len(origin.calls) == 5
        assert all("detail=vary-anything" in member(answer) for answer in answers)


@pytest.mark.parametrize("warning", ['110 - "Response is Stale"', '299 - "Miscellaneous"', "?"])
async def test_warnings_are_passed_on_and_mean_nothing(warning: str) -> None:
    """RFC 9111 §5.5 has them obsolete: none decides, none is taken away, and none is made."""

    async def app(call: Call) -> None:
        status = 304 if "if-none-match" in call.headers else 200
        if len(origin.calls) >= 3:  # a second attempt fails, too
            await call.close()
        else:
            more = [f"Warning: {warning}"] if status == 200 else []
            await call.answer("Cache-Control: max-age=9", 'ETag: "a"', *more, status=status)

    async with proxied(app) as (server, origin):
        answers = [await server.get("/a", 'Warning: 110 - "x"') for _ in range(2)]
        age(server, 10)
        answers.append(await server.get("/a"))
        assert "fwd-status=304" in member(answers[-1])
        age(server, 10)
        answers.append(await server.get("/a"))
        assert "detail=disconnected" in member(answers[-1])
        assert [fields(answer, "warning") for answer in answers] == [[warning]] * 4


async def test_nothing_is_asked_of_an_app_at_start_or_end() -> None:
    async with proxied(numbered) as (_, origin):
        pass
    assert origin.calls == []


async def test_what_is_held_is_in_the_ledger() -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"x" * 10_000)

    async with proxied(app) as (server, _):
        for number in range(10):
            await server.get(f"/{number}")
        accounts = server.worker.ledger.statistics().accounts
        assert 100_000 < accounts["working set"] < 120_000
        with trio.fail_after(PATIENCE):
            while accounts["fetches"]:
                await trio.sleep(0.005)
                accounts = server.worker.ledger.statistics().accounts
