"""What several tests of the plan need: values of any schema, boxes, and real devices.

Devices are made in a network namespace, which ends with them whatever happens. Kinds that
this kernel does not know (bond, VLAN) are made in a user-mode Linux if there is one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from msgspec import inspect

from edgebox.plan.facts import Facts, decode

HERE = Path(__file__).parent
COMMON = ("veth", "half a veth", "shaped", "bridge", "macvlan", "address", "address of IPv6",
          "default route", "none such", "loopback")  # fmt: skip
RARE = ("bond", "standby", "vlan", "vlan on bridge on bond")


@pytest.fixture(scope="session")
def anything() -> Callable[[Any], st.SearchStrategy[Any]]:
    """`anything(Type)`: every value that the msgspec schema of Type allows, unknowns too."""
    return cache(lambda kind: _strategy(inspect.type_info(kind)))


def _strategy(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.Metadata(type=inner):
            return _strategy(inner)
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=least, le=most):
            return _integers(least or 0, 2**63 - 1 if most is None else most)
        case inspect.FloatType(gt=above, ge=least, le=most):
            least = above if least is None else least
            bounds = st.floats(least or 0, most or 1e12, exclude_min=above is not None)
            return bounds if above is not None else st.one_of(st.just(float(least or 0)), bounds)
        case inspect.StrType():
            # Few names, so that interfaces come to lie on each other, in circles too.
            return st.sampled_from(["a", "b", "c", "[x]\n"])
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.UnionType(types=types):
            return st.one_of(*map(_strategy, types))
        case inspect.TupleType(item_types=types):
            return st.tuples(*map(_strategy, types))
        case inspect.VarTupleType(item_type=inner):
            return st.lists(_strategy(inner), max_size=3).map(tuple)
        case inspect.DictType(value_type=inner):
            return st.dictionaries(st.sampled_from(["scatter-gather", "x"]), _strategy(inner))
        case inspect.StructType(cls=struct, fields=fields):
            return st.builds(struct, **{f.name: _strategy(f.type) for f in fields})
    raise NotImplementedError(kind)


def _integers(least: int, most: int) -> st.SearchStrategy[int]:
    """Small ones, and those about a power of two, are where limits meet."""
    small = st.integers(least, min(most, least + 5000))
    powers = st.integers(10, 62).map(lambda n: max(least, min(most, 2**n)))
    return st.one_of(small, powers, st.integers(least, most))


@pytest.fixture(scope="session")
def common_devices() -> dict[str, Facts]:
    """Facts of devices that any kernel with veth knows, by scene."""
    _need(os.geteuid() == 0, "root, to make a network namespace")
    _need(shutil.which("ip") and shutil.which("tc"), "ip and tc: apt-get install iproute2")
    return _in_namespace(COMMON)


@pytest.fixture(scope="session")
def rare_devices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    """Facts of bonds and VLANs, from this kernel or a user-mode one."""
    _need(os.geteuid() == 0, "root, to make network devices")
    _need(shutil.which("ip"), "ip: apt-get install iproute2")
    if _kernel_knows_rare_kinds():
        return _in_namespace(RARE)
    kernel = shutil.which("linux.uml")
    _need(kernel, "the modules bonding and 8021q, or apt-get install user-mode-linux")
    assert kernel is not None
    return _in_user_mode(Path(kernel), tmp_path_factory.mktemp("guest"))


def _need(there: object, what: str) -> None:
    if not there:
        if os.environ.get("EDGEBOX_NO_SKIP"):
            pytest.fail(f"this test needs {what}")
        pytest.skip(f"needs {what}")


@contextmanager
def _namespace() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """A network namespace for the time of a `with`, as a function that runs words in it."""
    name = f"edgebox-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        yield lambda *words: subprocess.run(
            ["ip", "netns", "exec", name, *words], capture_output=True, text=True, timeout=60
        )
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def _kernel_knows_rare_kinds() -> bool:
    commands = ("ip link add name try0 type bond", "ip link add link lo name try1 type vlan id 1")
    with _namespace() as run:
        return all(run(*command.split()).returncode == 0 for command in commands)


@pytest.fixture(scope="session")
def stranger() -> Facts:
    """Facts of a macvlan whose card is in another namespace, under an index that is ours too."""
    _need(os.geteuid() == 0 and shutil.which("ip"), "root and ip: apt-get install iproute2")
    with _namespace() as outside, _namespace() as inside:
        name = inside("ip", "netns", "identify").stdout.strip()
        for run, command in (
            (inside, "ip link add name ours0 type veth peer name ours1"),
            (outside, "ip link add name card0 type veth peer name card1"),
            (outside, f"ip link add link card0 name stranger0 netns {name} type macvlan"),
        ):
            assert run(*command.split()).returncode == 0, command
        done = inside(sys.executable, str(HERE / "devices.py"), "stranger")
    assert done.returncode == 0, done.stderr
    return _facts(done.stdout)["stranger"]


@pytest.fixture(scope="session")
def namesake() -> Facts:
    """Facts of a veth that has a real card's name, seen with the sysfs that shows the card."""
    _need(os.geteuid() == 0 and shutil.which("ip"), "root and ip: apt-get install iproute2")
    card = next((path.parent.name for path in Path("/sys/class/net").glob("*/device")), None)
    if card is None:
        pytest.skip("this machine has no network card")
    with _namespace() as run:
        assert run("ip", "link", "add", "name", card, "type", "veth").returncode == 0
        name = run("ip", "netns", "identify").stdout.strip()
        # Unlike ip netns exec, this leaves /sys as it is.
        done = subprocess.run(
            ["nsenter", f"--net=/run/netns/{name}", sys.executable, "-m", "edgebox.plan.gather",
             json.dumps({"interface": card})],
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
    return decode(done.stdout)


def _in_namespace(scenes: tuple[str, ...]) -> dict[str, Facts]:
    with _namespace() as run:
        done = run(sys.executable, str(HERE / "devices.py"), *scenes)
    assert done.returncode == 0, done.stderr
    return _facts(done.stdout)


def _in_user_mode(kernel: Path, out: Path) -> dict[str, Facts]:
    modules = next((kernel.parent.parent / "lib/uml/modules").glob("*/modules.dep")).parent
    (out / "scenes").write_text("\n".join(RARE))
    guest = subprocess.Popen(
        [kernel, "mem=256M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
         "con=null", "con0=null,fd:1", f"uml_dir={out}",
         f"init={sys.executable}", "--", HERE / "guest.py", out, modules],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        console, _ = guest.communicate(timeout=90)
    except BaseException:
        os.killpg(guest.pid, signal.SIGKILL)  # its processes are this session's
        guest.communicate()
        raise
    told, errors = (
        path.read_text() if path.exists() else "" for path in (out / "facts", out / "errors")
    )
    assert told, (console, errors)
    return _facts(told)


def _facts(told: str) -> dict[str, Facts]:
    found = {}
    for scene, facts in json.loads(told).items():
        assert facts.pop("descriptors kept") == 0, scene
        found[scene] = decode(json.dumps(facts).encode())
    return found


@pytest.fixture(scope="session")
def box() -> Callable[[str], Facts]:
    """`box("wifi")`: the facts of a recorded box."""
    return lambda name: decode((HERE / "boxes" / f"{name}.json").read_bytes())


@pytest.fixture(scope="session")
def changed() -> Callable[..., Facts]:
    """`changed(facts, "memory", total=…)`: facts with fields of one table replaced."""

    def change(facts: Facts, table: str, **to: Any) -> Facts:
        record = msgspec.structs.replace(getattr(facts, table), **to)
        return msgspec.structs.replace(facts, **{table: record})

    return change
