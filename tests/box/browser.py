"""A real Chromium, driven over its DevTools protocol: what a person would see and do."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.box.apps.running import end

PATIENCE = 30  # seconds that the browser may take for anything


class Browser:
    """One tab. `problems` are errors of the page's script and what it was refused to load."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.requests: list[str] = []

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(told["exceptionDetails"]))
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.problems.append(told["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])

    def resize(self, width: int, height: int, *, phone: bool = False, scale: int = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=phone,
        )  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """Have the system be "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Evaluate until it is true; AssertionError where it never is."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.evaluate(script)):
            assert time.monotonic() < deadline, f"never true: {script}; {self.problems}"
            time.sleep(0.05)
        return value

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({selector!r}).innerText"))

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        told = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def browsing(chromium: str, profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile."""
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        port_file = profile / "DevToolsActivePort"
        while not port_file.exists() or port_file.read_text().count("\n") < 1:
            assert time.monotonic() < deadline, "the browser did not start"
            time.sleep(0.05)
        with connect(_tab(port_file), max_size=None, compression=None) as socket:
            yield Browser(socket)
    finally:
        end(process)


def _tab(port_file: Path) -> str:
    """The address of the one tab that there is."""
    import urllib.request

    port = int(port_file.read_text().split()[0])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as told:
        tabs = json.load(told)
    return str(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
