"""`edgebox bench` beside the real ab, on edgebox and on nginx: the same report, the same sums."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.conftest import Start, need, wait_until

pytestmark = pytest.mark.slow

NGINX = """
daemon off; master_process off; pid {where}/pid; error_log {where}/nginx-error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; keepalive_requests 1000000;
    client_body_temp_path {where}/t; proxy_temp_path {where}/t; fastcgi_temp_path {where}/t;
    scgi_temp_path {where}/t; uwsgi_temp_path {where}/t;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""

NUMBER = re.compile(r"\d+(?:\.\d+)?")
# The others depend on the moment, or on the length of heads: ab speaks HTTP/1.0.
SAME = ("Server Software", "Server Hostname", "Server Port", "Document Path", "Document Length",
        "Concurrency Level", "Complete requests", "Failed requests", "Keep-Alive requests",
        "HTML transferred")  # fmt: skip


@pytest.fixture(params=["edgebox", "nginx"])
def url(request: pytest.FixtureRequest, start: Start, root: Path, tmp_path: Path) -> Iterator[str]:
    if request.param == "edgebox":
        yield start("--root", str(root)).url
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(NGINX.format(where=tmp_path, port=port, root=root))
    nginx = need("nginx", "nginx-light")
    process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")])
    try:
        wait_until(lambda: takes_connections(port))
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(10)


def takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def report(*command: str) -> list[str]:
    """The lines from "Server Software" on, less ab's opinion of how steady the times were."""
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = ran.stdout[ran.stdout.index("Server Software") :].splitlines()
    opinion = ("WARNING: The median", "ERROR: The median", "These results are", "deviation apart")
    return [line for line in lines if not line.lstrip().startswith(opinion)]


def fields(lines: list[str]) -> dict[str, str]:
    return {line.partition(":")[0]: " ".join(line.partition(":")[2].split()) for line in lines}


@pytest.mark.parametrize("options", [["-k"], []], ids=["keep-alive", "a connection each"])
def test_the_report_is_that_of_ab(url: str, options: list[str]) -> None:
    ab = need("ab", "apache2-utils")
    common = ["-n", "200", "-c", "5", *options, f"{url}a.txt"]
    theirs = report(ab, "-q", *common)
    ours = report(sys.executable, "-m", "edgebox", "bench", *common)
    shape = [NUMBER.sub("N", " ".join(line.split())) for line in theirs]
    assert [NUMBER.sub("N", " ".join(line.split())) for line in ours] == shape
    mine, other = fields(ours), fields(theirs)
    assert {name: mine.get(name) for name in SAME} == {name: other.get(name) for name in SAME}
    assert mine["HTML transferred"] == "20000 bytes"


def test_a_missing_page_is_reported_as_ab_does(url: str) -> None:
    ab = need("ab", "apache2-utils")
    common = ["-n", "20", f"{url}missing"]
    ours = report(sys.executable, "-m", "edgebox", "bench", *common)
    assert (
        fields(ours)["Non-2xx responses"] == fields(report(ab, "-q", *common))["Non-2xx responses"]
    )
    assert fields(ours)["Non-2xx responses"] == "20"
