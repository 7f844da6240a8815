"""One boot of a disk: qemu, its serial console, its monitor, its forwarded ports.

All is on loopback, at ports that the kernel chose. Nothing here knows what is promised.
"""

import http.client
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

from trial.failure import PATIENCE, Failed, wait_until
from trial.hardware import Hardware

FORWARD = re.compile(r"HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+(\d+)")


class Machine:
    """It runs from the moment that it is made, until it ends or the plug is pulled."""

    def __init__(self, hardware: Hardware) -> None:
        self.where, self.began = hardware.where, time.monotonic()
        self.console = bytearray()
        monitor = self.where / "monitor"
        monitor.unlink(missing_ok=True)
        self.qemu = subprocess.Popen(
            hardware.command(monitor),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,  # an interrupt is for us, who then pull the plug
        )  # fmt: skip
        try:
            self._attach(hardware, monitor)
        except BaseException:  # whatever it is, no machine is left that nobody knows
            self.qemu.kill()
            self.qemu.wait()
            raise

    def _attach(self, hardware: Hardware, monitor: Path) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        wait_until(lambda: monitor.exists() or not self.runs(), "qemu", 30)
        if not self.runs():
            raise Failed(f"qemu ended: {self.console.decode(errors='replace')}")
        self.monitor = socket.socket(socket.AF_UNIX)
        self.monitor.settimeout(30)
        self.monitor.connect(str(monitor))
        self._answer()
        self.volume = "seed0-device" if hardware.seed is not None else ""
        self.volumes = 0
        found = FORWARD.findall(self.ask("info usernet"))
        self.ports = {int(inside): int(outside) for outside, inside in found}

    def runs(self) -> bool:
        return self.qemu.poll() is None

    def _listen(self) -> None:
        assert self.qemu.stdout is not None
        with self.qemu.stdout as source, (self.where / "console").open("ab", buffering=0) as kept:
            while octets := os.read(source.fileno(), 65536):
                self.console += octets
                kept.write(octets)

    # The monitor.

    def _answer(self) -> str:
        told = b""
        while not told.endswith(b"(qemu) "):
            more = self.monitor.recv(65536)
            if not more:
                break
            told += more
        return told.decode(errors="replace")

    def ask(self, command: str) -> str:
        self.monitor.sendall(command.encode() + b"\n")
        return self._answer()

    def insert(self, seed: Path) -> int:
        """Plugs a volume in, out of which the one before was pulled.

        Returns how much the console had said by then.
        """
        if self.volume:
            self.ask(f"device_del {self.volume}")
            time.sleep(2)
        self.volumes += 1
        self.volume = name = f"seed{self.volumes}"
        since = len(self.console)
        self.ask(f"drive_add 0 if=none,id=d{name},file={seed},format=raw,readonly=on")
        told = self.ask(f"device_add scsi-hd,bus=scsi.0,drive=d{name},id={name}")
        if "rror" in told:
            raise Failed(told)
        return since

    # The console.

    def wait(
        self, pattern: re.Pattern[bytes], seconds: float = PATIENCE, since: int = 0
    ) -> re.Match[bytes]:
        end = time.monotonic() + seconds
        while not (found := pattern.search(bytes(self.console), since)):
            if not self.runs():
                raise Failed(f"qemu ended before {pattern.pattern!r}")
            if time.monotonic() > end:
                tail = bytes(self.console[-600:]).decode(errors="replace")
                raise Failed(f"{pattern.pattern!r} not within {seconds:.0f} s; last:\n{tail}")
            time.sleep(0.1)
        return found

    # The network.

    def get(
        self, path: str, port: int = 80, seconds: float = 60
    ) -> tuple[int, dict[str, str], bytes]:
        wire = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=seconds)
        try:
            wire.request("GET", path, headers={"Host": "box.test"})
            answer = wire.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            wire.close()

    def body(self, path: str, port: int = 80, seconds: float = 60) -> bytes:
        """The answer's body, b"" where there is none, or another status than 200."""
        try:
            status, _, body = self.get(path, port, seconds)
        except (OSError, http.client.HTTPException):
            return b""
        return body if status == 200 else b""

    # The plug.

    def power_off(self) -> None:
        self.ask("system_powerdown")
        try:
            self.qemu.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.pull_the_plug()
            raise Failed("it does not go down when told to") from None
        self.monitor.close()

    def pull_the_plug(self) -> None:
        self.qemu.kill()
        self.qemu.wait()
        self.monitor.close()
