"""Steps: what the box says of itself to its owner, by SSH."""

import json
import re

from trial.bench import READY, Bench
from trial.failure import Failed

GIB = 1 << 30


def plan(bench: Bench) -> None:
    """`edgebox plan` on the box shows no open advice, and the kernel's settings are in force."""
    told = json.loads(bench.inside("edgebox plan --json -c /etc/edgebox/edgebox.toml"))
    if told["advice"]:
        raise Failed(json.dumps(told["advice"], indent=1))
    settings = bench.inside(
        "sysctl -n net.ipv4.tcp_congestion_control net.core.default_qdisc "
        "net.ipv4.tcp_slow_start_after_idle; tc qdisc show"
    )
    if settings.split()[:3] != ["bbr", "fq", "0"] or "qdisc fq " not in settings:
        raise Failed(settings)


def memory(bench: Bench) -> None:
    """What is used at idle, with every service up, is printed; nothing has failed."""
    told = bench.inside(
        "systemctl --failed --plain --no-legend; echo ---; cat /proc/meminfo; echo ---; "
        "grep -hs ^Pss: /proc/[0-9]*/smaps_rollup || true"  # the kernel's own have none
    )
    failed, meminfo, parts = told.split("---\n")
    if failed.strip():
        raise Failed(f"failed: {failed}")
    kib = {line.split(":")[0]: int(line.split()[1]) for line in meminfo.splitlines()}
    processes = sum(int(line.split()[1]) for line in parts.splitlines())
    ready = bench.machine.wait(READY)
    print(f"  memory in use at idle: {(kib['MemTotal'] - kib['MemAvailable']) >> 10} MiB of "
          f"{kib['MemTotal'] >> 10} MiB, {processes >> 10} MiB of it in processes (PSS); "
          f"{ready[3].decode()} MiB when it was ready", flush=True)  # fmt: skip


def disk_layout(bench: Bench) -> None:
    """The root cannot be written to; the data partition, made at the first boot, has the rest."""
    told = bench.inside(
        "findmnt -no FSTYPE,OPTIONS /; findmnt -nbo SIZE /data; "
        "for i in /etc/edgebox /var/cache/edgebox /var/log/edgebox; do "
        "findmnt -no FSTYPE -T $i; done"
    ).splitlines()
    root, size, *places = told
    if not re.match(r"squashfs +ro\b", root) or places != ["overlay", "ext4", "ext4"]:
        raise Failed("\n".join(told))
    if int(size) < 6.5 * GIB:  # of a disk of 8 GiB
        raise Failed(f"the data partition has {int(size) / GIB:.2f} GiB")
    print(f"  data partition: {int(size) / GIB:.2f} GiB of a disk of 8 GiB", flush=True)


def time_sync(bench: Bench) -> None:
    """The clock is kept by systemd-timesyncd."""
    told = bench.inside(
        "systemctl is-active systemd-timesyncd; timedatectl show --property NTP --value"
    )
    if told.split() != ["active", "yes"]:
        raise Failed(told)


def passwords(bench: Bench) -> None:
    """Nobody has a password, and no console asks for one."""
    told = bench.inside(
        "cut -d: -f2 /etc/shadow | sort -u | tr '\\n' ' '; systemctl list-units --plain --no-legend"
        " 'getty@*' 'serial-getty@*' --state=active | wc -l"
    ).split()
    if set(told[:-1]) - {"*", "!", "!*", "!!"} or told[-1] != "0":
        raise Failed(" ".join(told))
