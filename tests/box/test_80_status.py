"""The status page in a real browser, and the metrics in a real Prometheus."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.box.apps.running import AppServer
from tests.box.browser import Browser, browsing
from tests.box.conftest import Box, ServeApp, Start, ask, free_port, need, wait_until

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parent.parent.parent / "docs"
NASTY = '/<img src=x onerror="document.title=1">'


@dataclass
class Watched:
    """A box of two workers, before an app and some files, with a status page."""

    box: Box
    url: str
    app: AppServer

    def fetch(self, path: str = "", accept: str = "*/*") -> str:
        asked = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with urllib.request.urlopen(asked, timeout=10) as told:
            return str(told.read().decode())

    def look(self) -> dict[str, Any]:
        return dict(json.loads(self.fetch("?json")))

    def visit(self, times: int = 10) -> None:
        """Each of the things that clients do."""
        for path in ("/", "/a.txt", "/nothing", "/big.bin", "/asset/look.css"):
            for _ in range(times):
                ask(self.box, path)


@pytest.fixture
def watched(start: Start, serve_app: ServeApp, root: Path, tmp_path: Path) -> Watched:
    app, port = serve_app("shop:app"), free_port()
    file = tmp_path / "edgebox.toml"
    file.write_text(
        f"""
        [server]
        workers = 2
        [status]
        listen = "127.0.0.1:{port}"
        [nic]
        speed = "1 Gbit/s"
        [log]
        error = {json.dumps(str(tmp_path / "error.log"))}
        [[site]]
        root = {json.dumps(str(root))}
        [[site.route]]
        path = "/asset"
        upstream = "shop"
        [upstream.shop]
        servers = [{json.dumps(app.url)}]
        """
    )
    box = start("-c", str(file), "--workers", "2")
    watched = Watched(box, f"http://127.0.0.1:{port}/", app)
    wait_until(lambda: len(watched.look()["workers"]) == 2, 30)
    return watched


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with browsing(need("chromium", "chromium"), tmp_path / "profile") as one:
        yield one


def drawn(browser: Browser, url: str) -> None:
    browser.go(url)
    browser.wait_for("document.documentElement?.dataset.drawn")


def test_a_browser_shows_what_the_box_does_as_it_does_it(
    watched: Watched, browser: Browser, tmp_path: Path
) -> None:
    browser.resize(1360, 900)
    drawn(browser, watched.url)
    watched.visit()
    browser.wait_for("parseFloat(document.getElementById('requests').textContent) > 0")
    browser.wait_for("document.querySelector('#gauge .fill').style.strokeDasharray != '0, 200'")
    assert "of the" in browser.text("#gauge-says")
    browser.wait_for("document.querySelectorAll('#ram div').length > 0")
    browser.wait_for("document.querySelectorAll('#latency .range').length >= 1")
    browser.wait_for("document.querySelector('#hot').innerText.includes('a.txt')")
    assert watched.app.url.removeprefix("http://") in browser.text("#upstreams")
    assert len(browser.evaluate("document.querySelector('#workers').innerText").splitlines()) == 3
    browser.wait_for("document.querySelector('#verdict').innerText != ''")
    before = browser.evaluate("document.documentElement.dataset.drawn")
    browser.wait_for(f"document.documentElement.dataset.drawn > {before}")
    picture = tmp_path / "page.png"
    browser.screenshot(picture)
    assert picture.stat().st_size > 20_000
    # All of it came from the one address, and nothing went wrong.
    assert browser.problems == []
    assert {url.split("?")[0] for url in browser.requests if not url.startswith("data:")} == {
        watched.url
    }


def test_it_is_dark_where_the_system_is_and_fits_on_a_phone(
    watched: Watched, browser: Browser
) -> None:
    watched.visit(2)
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width in (320, 390, 820, 1360):
            browser.resize(width, 800, phone=width < 500)
            drawn(browser, watched.url)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        is_light = sum(browser.evaluate(paper)) > 3 * 128
        assert is_light == (scheme == "light")
    assert browser.problems == []


def test_what_a_client_sends_is_text_and_nothing_else(watched: Watched, browser: Browser) -> None:
    target = urllib.parse.quote(NASTY, safe="/<>=\"'")
    for _ in range(20):
        with watched.box.connect() as sock:
            sock.sendall(b"GET %s HTTP/1.1\r\nHost: <b>x\r\n\r\n" % target.encode())
            sock.recv(4096)
            sock.sendall(b"GET %s HTTP/1.0\r\n\r\n" % target.encode())
        ask(watched.box, target)
    drawn(browser, watched.url)
    browser.wait_for("document.querySelector('#hot').innerText.includes('onerror')")
    assert browser.evaluate("document.querySelectorAll('main img, main b b').length") == 0
    assert browser.evaluate("document.title").endswith("edgebox")
    assert browser.problems == []


def test_the_page_goes_on_when_workers_are_killed(watched: Watched, browser: Browser) -> None:
    drawn(browser, watched.url)
    old = {worker["pid"] for worker in watched.look()["workers"]}
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    new = "[...document.querySelectorAll('#workers tr')].map((row) => row.cells[0].textContent)"
    browser.wait_for(
        f"(({new}).length == 3) && !({new}).some((pid) => {sorted(old)}.includes(+pid))"
    )
    before = browser.evaluate("document.documentElement.dataset.drawn")
    browser.wait_for(f"document.documentElement.dataset.drawn > {before}")


def counters(text: str) -> dict[str, float]:
    rows = re.findall(
        r"^(edgebox_\S+_(?:total|count|bucket)(?:\{.*\})?) (\S+)$", text, re.MULTILINE
    )
    return {name: float(value) for name, value in rows}


def test_counters_go_on_when_workers_are_killed(watched: Watched) -> None:
    watched.visit()
    requests = 'edgebox_responses_total{class="2xx"}'
    wait_until(lambda: counters(watched.fetch("metrics"))[requests] >= 40)
    before = counters(watched.fetch("metrics"))
    old = {worker["pid"] for worker in watched.look()["workers"]}
    for pid in old:
        os.kill(pid, signal.SIGKILL)

    def replaced() -> bool:
        try:
            workers = watched.look()["workers"]
        except OSError:
            return False
        return len(workers) == 2 and not old & {worker["pid"] for worker in workers}

    wait_until(replaced, 30)
    watched.visit(1)
    wait_until(lambda: counters(watched.fetch("metrics"))[requests] >= before[requests] + 4)
    after = counters(watched.fetch("metrics"))
    assert before.keys() == after.keys()
    assert all(after[name] >= value for name, value in before.items())


def test_it_is_not_on_the_public_side_nor_there_unless_asked_for(
    watched: Watched, start: Start, root: Path
) -> None:
    for path in ("/metrics", "/?json", "/?events", "/?auto"):
        assert b"edgebox_requests" not in ask(watched.box, path).body
        assert b"Scoreboard" not in ask(watched.box, path).body
    with pytest.raises(urllib.error.HTTPError) as refused:
        watched.fetch("a.txt")  # and no site is on the status side
    assert refused.value.code == 404
    refused.value.close()
    plain = start("--root", str(root))
    listening = subprocess.run(
        [need("ss", "iproute2"), "-Hltnp"], capture_output=True, text=True, check=True
    ).stdout
    ours = {
        line.split()[3] for line in listening.splitlines() if f"pid={plain.process.pid}," in line
    }
    assert ours == {f"127.0.0.1:{plain.port}"}


# --- other programs ---------------------------------------------------------------------


@pytest.fixture
def prometheus(watched: Watched, tmp_path: Path) -> Iterator[str]:
    """A Prometheus that scrapes the box each second; its URL."""
    port, file = free_port(), tmp_path / "prometheus.yml"
    target = watched.url.removeprefix("http://").rstrip("/")
    file.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: edgebox\n"
        f'  static_configs: [{{targets: ["{target}"]}}]\n'
    )
    with subprocess.Popen(
        [
            need("prometheus", "prometheus"), f"--config.file={file}",
            f"--storage.tsdb.path={tmp_path}/tsdb", f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def query(prometheus: str, expression: str) -> list[float]:
    """The values of an instant query; AssertionError where Prometheus refuses it."""
    asked = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(asked, timeout=10) as told:
            return [float(each["value"][1]) for each in json.load(told)["data"]["result"]]
    except urllib.error.HTTPError as refused:
        if refused.code == 503:  # it is still starting
            raise OSError("not yet") from None
        raise AssertionError(f"{expression}: {refused.read().decode()}") from None


def is_up(prometheus: str) -> bool:
    try:
        return query(prometheus, "count_over_time(up[1m]) > 4 and up == 1") != []
    except OSError:
        return False


def test_prometheus_scrapes_it_and_answers_every_question_of_ours(
    watched: Watched, prometheus: str
) -> None:
    deadline = time.monotonic() + 60
    while not is_up(prometheus):
        watched.visit(2)
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert query(prometheus, "edgebox_workers") == [2]
    assert query(prometheus, "sum(edgebox_results_total)")[0] > 0
    assert query(prometheus, "edgebox_plan_bytes_per_second")[0] > 100_000_000
    # It asks for OpenMetrics, of which it keeps the kinds.
    with urllib.request.urlopen(f"{prometheus}/api/v1/metadata", timeout=10) as told:
        kinds = {name: rows[0]["type"] for name, rows in json.load(told)["data"].items()}
    assert kinds["edgebox_requests"] == "counter"
    assert kinds["edgebox_request_seconds"] == "histogram"

    rows = re.findall(r"^\| .*\? \| `(.*)`", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    panels = json.loads((DOCS / "grafana.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(rows) >= 8
    assert len(asked) >= 30
    for expression in rows + asked:
        plain = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
        answer = query(prometheus, plain)
        if " > " not in plain:  # questions that have no answer where all is well
            assert answer, plain


def test_auto_has_what_lighttpd_has(watched: Watched, tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "lighttpd.conf"
    file.write_text(
        f'server.port = {port}\nserver.bind = "127.0.0.1"\nserver.document-root = "{tmp_path}"\n'
        'server.modules = ("mod_status")\nstatus.status-url = "/status"\n'
    )
    with subprocess.Popen(
        [need("lighttpd", "lighttpd"), "-D", "-f", str(file)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            theirs = wait_for_text(f"http://127.0.0.1:{port}/status?auto")
        finally:
            process.terminate()
    ours = watched.fetch("?auto")
    names = [line.partition(":")[0] for line in theirs.splitlines() if ":" in line]
    assert [line.partition(":")[0] for line in ours.splitlines()] == names
    numbers = dict(line.split(": ") for line in ours.splitlines())
    assert all(numbers[name].isdigit() for name in names if name != "Scoreboard")


def wait_for_text(url: str) -> str:
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as told:
                return str(told.read().decode())
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
