"""One boot of a disk: qemu, its serial console, its monitor, its forwarded ports.

All is on loopback, at ports that the kernel chose. Nothing here knows what is promised.
"""

import http.client
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from trial.failure import PATIENCE, Failed, wait_until

CODE = ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_CODE.fd")
FORWARD = re.compile(r"HOST_FORWARD\]\s+\d+\s+\S+\s+(\d+)\s+\S+\s+(\d+)")
KVM = ("-accel", "kvm", "-cpu", "host", "-smp", "2")
EMULATED = ("-accel", "tcg,thread=multi", "-smp", "2")
# The box's clock goes by the instructions that it has executed, 4 ns each: a host that is busy with
# other things makes it slow, and nothing inside it late. GRUB for a BIOS crawls then.
EMULATED_IN_ITS_TIME = ("-accel", "tcg,thread=single", "-icount", "shift=2", "-smp", "1")
INSIDE = (80, 9180, 22, 8081)  # served, status, SSH, and one that nothing may reach


@dataclass(frozen=True)
class Hardware:
    """What the machine is made of."""

    disk: Path
    where: Path
    accel: tuple[str, ...]  # qemu's options: who executes the box's instructions
    firmware: str = "bios"
    seed: Path | None = None
    network_card: str = "virtio-net-pci"
    address: str = "10.0.2.15"  # which qemu forwards to; by DHCP the box has this one
    extra: tuple[str, ...] = ()

    def command(self, monitor: Path) -> list[str]:
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:0-{self.address}:{port}" for port in INSIDE)
        command = [
            "nice", "-n", "10", "qemu-system-x86_64", "-nodefaults", "-display", "none",
            "-machine", "q35", *self.accel, "-m", "1024",
            # Data that the guest has not flushed is partly in qemu's memory (where a new cluster
            # lies), and goes with it: a kill loses what a power cut may.
            "-drive", f"file={self.disk},if=none,id=disk,format=qcow2,cache=writeback",
            "-device", "virtio-blk-pci,drive=disk,bootindex=1",
            "-device", "virtio-scsi-pci,id=scsi", "-device", "virtio-rng-pci",
            "-netdev", f"user,id=net{forwards}",
            "-device", f"{self.network_card},netdev=net,romfile=",
            "-serial", "stdio", "-monitor", f"unix:{monitor},server,nowait", *self.extra,
        ]  # fmt: skip
        if self.firmware == "uefi":
            command += self._flash()
        if self.seed is not None and self.seed.suffix == ".iso":
            command += ["-drive", f"file={self.seed},if=none,id=cd,media=cdrom",
                        "-device", "ide-cd,drive=cd"]  # fmt: skip
        elif self.seed is not None:
            command += ["-drive", f"file={self.seed},if=none,id=dseed0,format=raw,readonly=on",
                        "-device", "scsi-hd,bus=scsi.0,drive=dseed0,id=seed0"]  # fmt: skip
        return command

    def _flash(self) -> list[str]:
        code = next((name for name in CODE if Path(name).exists()), None)
        if code is None:
            raise Failed("no UEFI firmware: install ovmf")
        variables = self.where / "variables"
        shutil.copyfile(code.replace("CODE", "VARS"), variables)
        return ["-drive", f"if=pflash,format=raw,readonly=on,file={code}",
                "-drive", f"if=pflash,format=raw,file={variables}"]  # fmt: skip


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
        self.volume = "seed0" if hardware.seed is not None else ""
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
