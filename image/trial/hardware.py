"""What a machine is made of, in qemu's words."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from trial.failure import Failed

CODE = ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_CODE.fd")
KVM = ("-accel", "kvm", "-cpu", "host", "-smp", "2")
EMULATED = ("-accel", "tcg,thread=multi", "-smp", "2")
# The box's clock goes by the instructions that it has executed, 4 ns each: a host that is busy with
# other things makes it slow, and nothing inside it late. GRUB for a BIOS crawls then.
EMULATED_IN_ITS_TIME = ("-accel", "tcg,thread=single", "-icount", "shift=2", "-smp", "1")
INSIDE = (80, 9180, 22, 8081)  # served, status, SSH, and one that nothing may reach

# Where a drive called {drive} is attached.
VIRTIO = ("-device", "virtio-blk-pci,drive={drive}")
SCSI = ("-device", "scsi-hd,bus=scsi.0,drive={drive},id={drive}-device")
PVSCSI = ("-device", "pvscsi,id=pvscsi", "-device", "scsi-hd,bus=pvscsi.0,drive={drive}")
SATA = ("-device", "ide-hd,drive={drive}")
CD = ("-device", "ide-cd,drive={drive}")
NVME = ("-device", "nvme,serial={drive},drive={drive}")
USB = ("-device", "qemu-xhci", "-device", "usb-storage,drive={drive}")


@dataclass(frozen=True)
class Hardware:
    """What the machine is made of."""

    disk: Path
    where: Path
    accel: tuple[str, ...]  # qemu's options: who executes the box's instructions
    firmware: str = "bios"
    seed: Path | None = None
    disk_at: tuple[str, ...] = VIRTIO
    seed_at: tuple[str, ...] = SCSI  # which is what can be pulled out
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
            "-device", "virtio-scsi-pci,id=scsi", "-device", "virtio-rng-pci",
            *_at(self.disk_at, "disk"),
            "-netdev", f"user,id=net{forwards}",
            "-device", f"{self.network_card},netdev=net,romfile=",
            "-serial", "stdio", "-monitor", f"unix:{monitor},server,nowait", *self.extra,
        ]  # fmt: skip
        if self.firmware == "uefi":
            command += self._flash()
        if self.seed is not None:
            what = f"file={self.seed},if=none,id=seed0,format=raw,readonly=on"
            command += ["-drive", what, *_at(self.seed_at, "seed0")]
        return command

    def _flash(self) -> list[str]:
        code = next((name for name in CODE if Path(name).exists()), None)
        if code is None:
            raise Failed("no UEFI firmware: install ovmf")
        variables = self.where / "variables"
        shutil.copyfile(code.replace("CODE", "VARS"), variables)
        return ["-drive", f"if=pflash,format=raw,readonly=on,file={code}",
                "-drive", f"if=pflash,format=raw,file={variables}"]  # fmt: skip


def _at(place: tuple[str, ...], drive: str) -> list[str]:
    """The options that attach a drive there; the disk is what is booted from."""
    words = [word.format(drive=drive) for word in place]
    if drive == "disk":
        words[-1] += ",bootindex=1"
    return words
