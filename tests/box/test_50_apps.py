"""A Flask app under gunicorn behind a box: what its author and its visitors may rely on."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from tests.box.apps.running import AppServer, gunicorn
from tests.box.conftest import Before, Box, ServeApp, ask, need, running, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One for all tests that do not harm it: each asks under a query of its own."""
    log = tmp_path_factory.mktemp("shop") / "gunicorn.log"
    with gunicorn("shop:app", "127.0.0.1:0", log) as app:
        yield app


@pytest.fixture(scope="module")
def box(shop: AppServer) -> Iterator[Box]:
    with running("--upstream", shop.url, "--listen", "127.0.0.1:0") as box:
        yield box


def seen(shop: AppServer, path: str) -> int:
    """How many requests for `path` the app saw itself."""
    count: int = json.loads(shop.ask("/seen")).get(path, 0)
    return count


def curl(box: Box, path: str, *options: str, data: str = "") -> str:
    """What curl prints of `path`; `data` is its standard input."""
    done = subprocess.run(
        [need("curl", "curl"), "-sS", "--max-time", "20", *options, f"{box.url.rstrip('/')}{path}"],
        capture_output=True, check=True, timeout=30, input=data.encode(),
    )  # fmt: skip
    return done.stdout.decode()


class Visitor:
    """A client that keeps its connection and its cookies, as a browser does."""

    def __init__(self, box: Box) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=10)
        self.cookies: SimpleCookie = SimpleCookie()

    def ask(self, path: str, body: str | None = None) -> tuple[int, str]:
        """GET, or with a `body` POST a form."""
        fields = {}
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{k}={m.value}" for k, m in self.cookies.items())
        if body is not None:
            fields["Content-Type"] = "application/x-www-form-urlencoded"
        self.connection.request("GET" if body is None else "POST", path, body, fields)
        response = self.connection.getresponse()
        for value in response.headers.get_all("Set-Cookie", []):
            self.cookies.load(value)
        return response.status, response.read().decode()


Visit = Callable[[Box], Visitor]


@pytest.fixture
def visit() -> Iterator[Visit]:
    """Visitors whose connections end with the test."""
    visitors: list[Visitor] = []

    def come(box: Box) -> Visitor:
        visitors.append(Visitor(box))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.connection.close()


def test_a_session_belongs_to_one_visitor(box: Box, visit: Visit) -> None:
    ann, ben = visit(box), visit(box)
    assert ann.ask("/login", "name=ann")[0] == 303
    assert ben.ask("/login", "name=ben")[0] == 303
    for _ in range(2):
        assert ann.ask("/me") == (200, "you are ann")
        assert ben.ask("/me") == (200, "you are ben")
        assert visit(box).ask("/me") == (200, "you are nobody")


def test_a_cookie_is_never_another_visitors_even_on_what_is_called_public(
    box: Box, shop: AppServer, visit: Visit
) -> None:
    visitors = [visit(box) for _ in range(3)]
    for number, visitor in enumerate(visitors):
        visitor.ask("/login", f"name=visitor{number}")
    for turn in (1, 2):
        for number, visitor in enumerate(visitors):
            assert visitor.ask("/visit") == (200, f"visitor{number}: visit {turn}")
    assert len({visitor.cookies["session"].value for visitor in visitors}) == 3
    assert seen(shop, "/visit") == 6


def test_a_page_that_varies_by_cookie_is_each_visitors_own(
    box: Box, shop: AppServer, visit: Visit
) -> None:
    ann, ben = visit(box), visit(box)
    ann.ask("/login", "name=ann")
    ben.ask("/login", "name=ben")
    for _ in range(10):  # fast enough for the express lane to have its say
        assert ann.ask("/hello") == (200, "hello ann")
        assert ben.ask("/hello") == (200, "hello ben")
        assert visit(box).ask("/hello") == (200, "hello stranger")
    assert seen(shop, "/hello") == 3


def test_what_is_fresh_is_answered_without_the_app(box: Box, shop: AppServer) -> None:
    path = "/asset/look.css?for=fresh"
    first, again = ask(box, path), ask(box, path)
    assert first.body == again.body
    assert first.headers["cache-status"].startswith("edgebox; fwd=uri-miss; fwd-status=200; stored")
    assert again.headers["cache-status"].startswith("edgebox; hit; ttl=")
    assert int(again.headers["age"]) >= 0
    assert again.headers["etag"] == first.headers["etag"]
    assert seen(shop, path) == 1


def test_conditions_and_ranges_are_met_by_the_cache(box: Box, shop: AppServer) -> None:
    path = "/asset/look.css?for=conditions"
    etag = ask(box, path).headers["etag"]
    same = ask(box, path, if_none_match=etag)
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
    part = ask(box, path, range="bytes=1-3", if_range=etag)
    assert (part.status, part.body) == (206, b"out")
    assert seen(shop, path) == 1


def test_no_cache_is_asked_for_each_time_and_renewed_by_304(
    box: Box, shop: AppServer, visit: Visit
) -> None:
    path = "/news?for=no-cache"
    first = ask(box, path)
    assert ask(box, path).body == first.body
    assert (seen(shop, f"{path} 200"), seen(shop, f"{path} 304")) == (1, 1)
    assert visit(box).ask(path, "text=more")[0] == 204
    changed = ask(box, path)
    assert changed.body == first.body + b"\nmore"
    assert changed.headers["etag"] != first.headers["etag"]
    assert ask(box, path, if_none_match=changed.headers["etag"]).status == 304


def test_what_went_stale_is_renewed_and_then_fresh_again(box: Box, shop: AppServer) -> None:
    path = "/news?cc=max-age=1&for=stale"
    first = ask(box, path)
    wait_until(lambda: seen(shop, f"{path} 304") or ask(box, path).status != 200)
    renewed = ask(box, path)
    assert (renewed.status, renewed.body) == (200, first.body)
    assert seen(shop, f"{path} 200") == 1


def test_a_post_has_what_is_stored_for_its_url_asked_for_again(box: Box, visit: Visit) -> None:
    path = "/news?cc=max-age=600&for=post"
    first = ask(box, path)
    assert visit(box).ask(path, "text=newer")[0] == 204
    assert ask(box, path).body == first.body + b"\nnewer"


def test_the_app_knows_who_asked_for_what(box: Box) -> None:
    told = json.loads(curl(box, "/whoami", "-H", "Host: shop.example:8443"))
    assert (told["address"], told["scheme"]) == ("127.0.0.1", "http")
    assert told["host"] == "shop.example:8443"
    assert told["fields"]["Via"][0].startswith("1.1 edgebox-")


def test_strangers_cannot_say_who_they_are(box: Box) -> None:
    lies = (
        "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https",
        "Forwarded: for=6.6.6.6;host=evil.example;proto=https", "X-Real-IP: 6.6.6.6",
        "Connection: X-Secret", "X-Secret: of this hop",
    )  # fmt: skip
    answer = curl(box, "/whoami", *(word for lie in lies for word in ("-H", lie)))
    told = json.loads(answer)
    assert (told["address"], told["scheme"]) == ("127.0.0.1", "http")
    assert "6.6.6.6" not in answer
    assert "evil.example" not in answer
    assert "X-Secret" not in told["fields"]


def test_a_proxy_that_is_trusted_is_believed(before: Before, shop: AppServer) -> None:
    box = before(shop.url, cache={"trusted_proxies": ["127.0.0.0/8"]})
    told = json.loads(
        ask(box, "/whoami", X_Forwarded_For="9.9.9.9", X_Forwarded_Proto="https").body
    )
    assert told["fields"]["X-Forwarded-For"] == ["9.9.9.9, 127.0.0.1"]
    assert told["scheme"] == "https"


def test_redirects_lead_to_where_the_visitor_was(box: Box) -> None:
    moved = curl(box, "/moved", "-i", "-H", "Host: shop.example")
    assert moved.startswith("HTTP/1.1 301 ")
    assert "\nLocation: http://shop.example/\r\n" in moved
    followed = curl(box, "/moved", "-L", "-w", "%{num_redirects} %{url_effective}")
    assert followed.endswith(f"1 {box.url.rstrip('/')}/")


def test_two_hosts_do_not_share_a_redirect(box: Box) -> None:
    """A 301 may be stored, and this one names the host."""
    for host in ("one.example", "two.example", "one.example"):
        assert ask(box, "/moved?for=hosts", host=host).headers["location"] == f"http://{host}/"


def test_forms_arrive_whole_however_they_are_sent(box: Box) -> None:
    data = "word=a+b%26c%3Dd&long=" + "x" * 200_000
    form = {"word": "a b&c=d", "long": "x" * 200_000}
    for how in ("Accept: */*", "Transfer-Encoding: chunked", "Expect: 100-continue"):
        sent = curl(box, "/form", "--data-binary", "@-", "-H", how, data=data)
        assert json.loads(sent) == form, how
    assert json.loads(curl(box, "/form", "-F", "word=a b")) == {"word": "a b"}


def test_hints_that_come_early_are_passed_on_and_never_stored(box: Box, shop: AppServer) -> None:
    first = curl(box, "/hinted", "-i")
    assert first.startswith("HTTP/1.1 103 Early Hints\r\nLink: </asset/look.css>; rel=preload")
    assert first.endswith("\r\n\r\npage")
    again = curl(box, "/hinted", "-i")
    assert again.startswith("HTTP/1.1 200 ")
    assert "Link:" not in again
    assert seen(shop, "/hinted") == 1


def test_a_file_that_the_app_names_is_sent_by_us_to_those_it_lets_in(
    before: Before, serve_app: ServeApp, visit: Visit, tmp_path: Path
) -> None:
    """With gunicorn, which announces a length and then sends nothing of it."""
    invoices = tmp_path / "invoices"
    invoices.mkdir()
    octets = os.urandom(5_000_000)
    (invoices / "invoice.pdf").write_bytes(octets)
    shop = serve_app("shop:app", "--env", f"INVOICES={invoices}")
    box = before(shop.url, route={"accel": str(invoices)})
    assert ask(box, "/invoice").status == 403
    ann = visit(box)
    ann.ask("/login", "name=ann")
    cookie = f"session={ann.cookies['session'].value}"
    for _ in range(2):
        got = ask(box, "/invoice", cookie=cookie)
        assert (got.status, got.body) == (200, octets)
        assert got.headers["content-type"] == "application/pdf"
        assert got.headers["content-disposition"] == "attachment; filename=invoice.pdf"
        assert "x-sendfile" not in got.headers
        assert ask(box, "/invoice").status == 403
    part = ask(box, "/invoice", cookie=cookie, range="bytes=-5")
    assert (part.status, part.body) == (206, octets[-5:])
    assert part.headers["content-range"] == "bytes 4999995-4999999/5000000"
    same = ask(box, "/invoice", cookie=cookie, if_none_match=got.headers["etag"])
    assert (same.status, same.body) == (304, b"")
    head = ask(box, "/invoice", "HEAD", cookie=cookie)
    assert (head.status, head.headers["content-length"]) == (200, "5000000")


def test_error_pages_are_the_apps_own(box: Box, shop: AppServer) -> None:
    missing = ask(box, "/none")
    assert (missing.status, b"Not Found" in missing.body) == (404, True)
    for _ in range(2):
        broken = ask(box, "/broken")
        assert (broken.status, b"Internal Server Error" in broken.body) == (500, True)
    assert seen(shop, "/broken") == 2


def test_an_answer_without_a_length_comes_whole(box: Box) -> None:
    lines = "".join(f"line {number}\n" for number in range(5))
    assert curl(box, "/poem") == lines
    assert curl(box, "/poem", "--http1.0") == lines
    assert ask(box, "/poem").headers["transfer-encoding"] == "chunked"


def test_head_tells_what_get_would(box: Box) -> None:
    for path in ("/asset/dot.png?for=head", "/me", "/none"):
        head, got = ask(box, path, "HEAD"), ask(box, path)
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-length"] == str(len(got.body)), path
        assert curl(box, path, "-I").lower().count("\ncontent-length:") == 1, path


def chromium(url: str, profile: Path) -> str:
    """The page at `url` once its scripts have run, as Chromium has it, in a fresh profile."""
    done = subprocess.run(
        [
            need("chromium", "chromium"), "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}",
            "--virtual-time-budget=5000", "--dump-dom", url,
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def test_a_browser_gets_a_page_with_all_its_parts_and_the_next_one_gets_it_from_the_cache(
    box: Box, shop: AppServer, tmp_path: Path
) -> None:
    first = chromium(box.url, tmp_path / "first")
    assert "color=rgb(1, 2, 3) width=1" in first
    parts = ("/", "/asset/look.css", "/asset/act.js", "/asset/dot.png")
    counts = [seen(shop, path) for path in parts]
    second = chromium(box.url, tmp_path / "second")
    assert "color=rgb(1, 2, 3) width=1 status=edgebox; hit" in second
    assert [seen(shop, path) for path in parts] == counts


def test_over_a_unix_socket_all_is_as_over_tcp(
    before: Before, serve_app: ServeApp, visit: Visit, tmp_path: Path
) -> None:
    shop = serve_app("shop:app", bind=f"unix:{tmp_path}/app.sock")
    box = before(shop.url)
    visitor = visit(box)
    visitor.ask("/login", "name=ann")
    assert visitor.ask("/me") == (200, "you are ann")
    assert ask(box, "/asset/look.css").status == 200
    assert "; hit" in ask(box, "/asset/look.css").headers["cache-status"]
    told = json.loads(ask(box, "/whoami", host="shop.example").body)
    assert (told["host"], told["fields"]["X-Forwarded-For"]) == ("shop.example", ["127.0.0.1"])


def test_a_worker_that_is_killed_costs_no_get_its_answer(
    before: Before, serve_app: ServeApp, visit: Visit
) -> None:
    """What is idempotent and unanswered is sent again, and the next worker answers it."""
    shop = serve_app("shop:app")
    box = before(shop.url, route={"cache": False})
    visitor = visit(box)
    for turn in range(1, 4):
        assert visitor.ask("/me")[0] == 200  # leaves a connection that the kill will break
        os.kill(shop.workers()[-1], signal.SIGKILL)
        assert visitor.ask("/me")[0] == 200
        wait_until(lambda turn=turn: len(shop.workers()) > turn)


def test_a_worker_killed_under_load_is_told_or_retried_and_nothing_hangs(
    before: Before, serve_app: ServeApp
) -> None:
    """Every request gets a whole answer, one that is visibly cut off, or a 502."""
    shop = serve_app("shop:app")
    box = before(shop.url, route={"cache": False})
    over = threading.Event()
    outcomes: Counter[tuple[str, int]] = Counter()

    def load(method: str) -> None:
        while not over.is_set():
            try:
                reply = ask(box, "/poem" if method == "GET" else "/form", method)
            except http.client.IncompleteRead:
                outcomes[method, 0] += 1  # the head was out when the worker died: it shows
                continue
            outcomes[method, reply.status] += 1
            if reply.status == 200 and method == "GET":
                assert reply.body.count(b"\n") == 5

    with ThreadPoolExecutor(8) as pool:
        loads = [pool.submit(load, method) for method in ("GET", "POST") * 4]
        for turn in range(1, 4):
            had = outcomes.total()
            wait_until(lambda had=had: outcomes.total() > had + 20)
            os.kill(shop.workers()[-1], signal.SIGKILL)
            wait_until(lambda turn=turn: len(shop.workers()) > turn)
        over.set()
        for task in loads:
            task.result()
    assert set(outcomes) <= {(m, s) for m in ("GET", "POST") for s in (0, 200, 502)}
    wait_until(lambda: ask(box, "/me").status == 200)


def test_an_app_that_is_away_is_told_and_comes_back_without_a_restart(
    before: Before, serve_app: ServeApp, tmp_path: Path
) -> None:
    shop = serve_app("shop:app")
    # Alone, it is asked even while it is left out for its failures.
    box = before(shop.url, upstream={"eject_for": "1h"})
    fresh = ask(box, "/asset/look.css")
    shop.process.kill()
    os.kill(shop.workers()[-1], signal.SIGKILL)
    shop.process.wait()
    wait_until(lambda: ask(box, "/me").status == 502)
    for _ in range(5):
        assert ask(box, "/me").status == 502
    sent = ("--data-binary", "@-", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:")
    assert curl(box, "/form", *sent, data="x" * 10_000_000) == "502", "told, not reset away"
    assert ask(box, "/asset/look.css").body == fresh.body, "what is stored needs no app"
    told = tmp_path / "error.log"
    wait_until(lambda: f"/me: {shop.url}: cannot connect: Connection refused" in told.read_text())
    serve_app("shop:app", bind=shop.bind)
    wait_until(lambda: ask(box, "/me").status == 200)


@pytest.mark.alone  # all but the faults has to come within half a second
def test_faults_of_the_app_are_told_apart(
    before: Before, serve_app: ServeApp, tmp_path: Path
) -> None:
    app = serve_app("streams:app")
    limits = {"head_timeout": "500ms", "connections": 1, "queue_timeout": "100ms"}
    box = before(app.url, upstream=limits, route={"cache": False})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, box, "/hang")
        wait_until(lambda: app.state()["hanging"])
        second = ask(box, "/state")
        assert (second.status, second.headers["retry-after"]) == (503, "1")
        assert first.result().status == 504
    assert ask(box, "/no-answer", "POST").status == 502
    with pytest.raises(http.client.IncompleteRead):
        ask(box, "/cut")
    told = (tmp_path / "error.log").read_text
    for words in (
        f"/hang: {app.url}: did not answer in time: within 0.5 s",
        "/state: no connection became free in time: 0.1 s",
        f"/no-answer: {app.url}: closed the connection before it answered",
        f'"GET /cut HTTP/1.1" cut off: {app.url}: closed the connection in the middle',
    ):
        wait_until(lambda words=words: words in told())
