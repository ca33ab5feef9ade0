"""What parts the machines of a test's cluster: network namespaces where this process may make them, else addresses.

A machine in a namespace has one link, which can be taken down, and a loopback of its own. The servers of the tests
listen on loopback here, so their ports are carried: at 127.0.0.1 there, over the link, to 127.0.0.1 here.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from seamline import settings

# Addresses for tests of networks (RFC 2544): of no network that a machine is in. One /24 for each session's ports.
_PREFIX = "198.18"
_BASE_STEP = 100


@dataclass(frozen=True)
class Machine:
    """`runner` stands before a command that shall run there. `link`: its end here, where it has one."""

    address: str
    runner: tuple[str, ...] = ()
    link: str = ""

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing comes there and nothing comes from there, and no side learns of it."""
        _ip("link", "set", self.link, "down")
        try:
            yield
        finally:
            _ip("link", "set", self.link, "up")


@dataclass
class Addresses:
    """No more than addresses on one loopback."""

    here: str = "127.0.0.1"
    has_links: bool = False

    def machine(self, number: int) -> Machine:
        return Machine(f"127.0.0.{number}")


@dataclass
class Namespaces:
    """On one bridge, which is the machine here. `ports`: of the servers that are reached at 127.0.0.1."""

    name: str
    net: str
    ports: Sequence[int]
    around: ExitStack
    has_links: bool = True

    @property
    def here(self) -> str:
        return f"{self.net}.1"

    def machine(self, number: int) -> Machine:
        name = f"{self.name}m{number}"
        made = Machine(f"{self.net}.{number}", ("ip", "netns", "exec", name), name)
        _remove("netns", name)
        _ip("netns", "add", name)
        self.around.callback(_remove, "netns", name)
        _ip("link", "add", made.link, "type", "veth", "peer", "name", "eth0", "netns", name)
        self.around.callback(_remove, "link", made.link)
        _ip("link", "set", made.link, "master", self.name, "up")
        _ip("-n", name, "address", "add", f"{made.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", name, "link", "set", device, "up")
        self.around.enter_context(_relayed(made.runner, "127.0.0.1", self.here, self.ports))
        return made


@contextmanager
def network() -> Iterator[Addresses | Namespaces]:
    """One of this session's own; its machines reach the session's servers at 127.0.0.1."""
    servers = settings.load().ports
    ports = (servers.mariadb, servers.postgres, servers.kafka)
    name, net = f"sl{servers.base}", f"{_PREFIX}.{servers.base // _BASE_STEP % 256}"
    with ExitStack() as around:
        if not _is_bridged(name, f"{net}.1/24", around):
            yield Addresses()
            return
        around.enter_context(_relayed((), f"{net}.1", "127.0.0.1", ports))
        yield Namespaces(name, net, ports, around)


def _is_bridged(name: str, address: str, around: ExitStack) -> bool:
    """Whether there is a bridge now; False where this account may make none, or no namespaces."""
    try:
        _remove("link", name)
        # Without an address of its own it takes that of a machine, another one with each that comes or goes.
        _ip("link", "add", name, "address", "02:00:00:00:00:01", "type", "bridge")
        around.callback(_remove, "link", name)
        _ip("netns", "add", f"{name}try")
        _ip("netns", "delete", f"{name}try")
        _ip("address", "add", address, "dev", name)
        _ip("link", "set", name, "up")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@contextmanager
def _relayed(runner: Sequence[str], listens_at: str, leads_to: str, ports: Sequence[int]) -> Iterator[None]:
    command = [*runner, sys.executable, "-m", "tests.spark.relay", listens_at, leads_to, *map(str, ports)]
    with subprocess.Popen(command, cwd=settings.load().root, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None
            assert relay.stdout.readline() == "carried\n"
            yield
        finally:
            relay.kill()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _remove(kind: str, name: str) -> None:
    """What is there no more, or was left by a session that was killed."""
    with contextlib.suppress(subprocess.CalledProcessError):
        _ip(kind, "delete", name)
