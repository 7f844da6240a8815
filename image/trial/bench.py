"""What lasts from one boot to the next: disks, upstream, keys, and the machine that runs."""

import http.client
import os
import re
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

from trial.failure import Failed, run, wait_until
from trial.hardware import EMULATED, EMULATED_IN_ITS_TIME, KVM, Hardware
from trial.machine import Machine
from trial.origin import Origin
from trial.seed import Content, Key, archive, configuration, connect, volume

READY = re.compile(rb"appliance: (ready|not ready) after ([0-9.]+) s, (\d+) MiB in use")
SLOT = re.compile(rb"appliance: version (\S+) in slot (\w)")
WELL = re.compile(rb"all is well")
NO_SSH = 255  # what ssh itself ends with; ssh(1)
PROBE = 25.0  # seconds in which a guest under KVM has said something, if KVM works


@dataclass(frozen=True)
class Extent:
    """How much a run does."""

    build: Path
    cuts: int
    everything: bool
    firmware: str
    busy_host: bool


class Bench:
    def __init__(self, extent: Extent, where: Path) -> None:
        self.extent, self.where = extent, where
        self.origin = Origin()
        self.key = Key(where / "key")
        self.stranger = Key(where / "stranger")
        self.emulated = EMULATED_IN_ITS_TIME if extent.busy_host else EMULATED
        self.accel = KVM if os.access("/dev/kvm", os.R_OK | os.W_OK) else self.emulated
        self.disk = self.new_disk("disk")
        self._machine: Machine | None = None
        self._has_ssh = False
        self.page, self.header = b"", ""  # what the box was told to serve last
        self.boots: list[float] = []  # seconds to the ready line, of each

    @property
    def system(self) -> Path:
        return self.extent.build / "edgebox.slot"

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            raise Failed("no machine runs")
        return self._machine

    def new_disk(self, name: str) -> Path:
        disk = self.where / f"{name}.qcow2"
        built = (self.extent.build / "edgebox.qcow2").absolute()
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", built, disk)
        return disk

    def seed(self, name: str, files: dict[str, Content]) -> Path:
        return volume(self.where / f"{name}.seed", files)

    def site(self, page: bytes, header: str, **more: bytes) -> dict[str, Content]:
        """A seed's configuration and docroot; with the link's speed, which virtio does not tell."""
        self.page, self.header = page, header
        return {
            "edgebox.toml": configuration(self.origin.port, header, '[nic]\nspeed = "1 Gbit/s"'),
            "docroot.tar.gz": archive({"index.html": page, **more}),
            "authorized_keys": self.key.public,
        }

    # Boots.

    def boot(self, seed: Path | None = None) -> Machine:
        return self.boot_with(
            Hardware(self.disk, self.where, self.accel, self.extent.firmware, seed)
        )

    def boot_with(self, hardware: Hardware) -> Machine:
        """Pulls the plug if a machine runs, and starts this one; it has to come up well."""
        self.stop()
        self._has_ssh = False
        self._machine = self._start(hardware)
        found = self.machine.wait(READY)
        self.boots.append(time.monotonic() - self.machine.began)
        if found[1] != b"ready":
            raise Failed("edgebox does not come up")
        return self.machine

    def stop(self) -> None:
        if self._machine is not None and self._machine.runs():
            self._machine.pull_the_plug()

    def _start(self, hardware: Hardware) -> Machine:
        """KVM is used where a guest comes up with it: /dev/kvm alone proves nothing."""
        if self.accel == KVM:
            machine = None
            try:
                machine = Machine(replace(hardware, accel=KVM))
                machine.wait(re.compile(rb"\S"), PROBE)
            except (Failed, OSError):
                if machine is not None and machine.runs():
                    machine.pull_the_plug()
                print("  /dev/kvm is there and runs nothing: software emulation", flush=True)
                self.accel = self.emulated
            else:
                return machine
        return Machine(replace(hardware, accel=self.accel))

    # What the box says.

    def slot(self, since: int = 0) -> tuple[str, str]:
        """The version and the slot that it told of last."""
        self.machine.wait(SLOT, since=since)
        version, slot = SLOT.findall(bytes(self.machine.console), since)[-1]
        return version.decode(), slot.decode()

    def wait_for_site(self) -> None:
        """The page and the header that it was told to serve are there."""

        def served() -> bool:
            try:
                _, fields, body = self.machine.get("/")
            except (OSError, http.client.HTTPException):
                return False
            return body == self.page and fields.get("x-box") == self.header

        wait_until(served, f"the site {self.page!r} with {self.header!r}")

    def ssh(
        self, command: str, given: Path | None = None, key: Key | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return connect(self.machine.ports[22], key or self.key, command, given)

    def inside(self, command: str, given: Path | None = None) -> str:
        """What a command, which has to succeed, says on the box."""
        if not self._has_ssh:  # the site is there before it
            wait_until(lambda: self.ssh("true").returncode != NO_SSH, "SSH")
            self._has_ssh = True
        done = self.ssh(command, given)
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise Failed(f"on the box, {command} ends with {done.returncode}: {said[-600:]}")
        return done.stdout.decode(errors="replace")
