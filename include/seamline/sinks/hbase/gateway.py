"""HBase's own client, in a JVM beside this process. There is none for Python."""

import atexit
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, Refused, SeamlineError, TransientError

LAUNCH = "launch.json"
_ZNODE, _PORT = "/hbase", 2181
_MEMORY = "-Xmx512m"
_DENIED = ("AccessDeniedException", "AccessControlException")
_NOT_TAKEN = ("IllegalArgumentException", "DoNotRetryIOException")
_GONE = ("TableNotFoundException", "NamespaceNotFoundException")


@dataclass(slots=True)
class _Jvm:
    """`process`: who started it. One that was forked must not use it. `stores`: a connection of HBase's client is made
    for all threads and heals itself, so there is one for each address and login."""

    process: int
    gateway: Any
    stores: dict[tuple[str, int, str, str], Any] = field(default_factory=dict)


_jvm: _Jvm | None = None
_inherited: list[_Jvm | None] = []


class Store:
    """HBase as one session uses it. The methods are those of `Store.java`; errors are Seamline's."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._java, name)

        def call(*given: Any) -> Any:
            with translated(f"answer `{name}`"):
                return method(*given)

        return call

    def close(self) -> None:
        """The connection stays, for whoever opens the next session of this process."""
        self._java = None


def open_store(connection: Connection) -> Store:
    znode = str(connection.extra.get("znode") or _ZNODE)
    with translated(f"connect to {connection.connection_id}"):
        return Store(_store_of(connection.host, connection.port or _PORT, znode, connection.login))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of HBase as ours: all are transient but for a lacking right, a table that is gone, and what it refuses for
    good."""
    try:
        yield
    except Py4JJavaError as exc:
        raise _error(exc, doing) from exc
    except (Py4JNetworkError, OSError) as exc:
        _end()
        raise TransientError(f"the JVM of HBase's client did not {doing}: {exc}", hint="it is tried again") from exc


def _error(exc: Py4JJavaError, doing: str) -> SeamlineError:
    said = str(exc.java_exception.toString())
    short = f"HBase did not {doing}: {said.splitlines()[0][:400]}"
    if any(name in said for name in _DENIED):
        return ConfigError(short, hint="`seamline grants` prints the rights that its login needs")
    if any(name in said for name in _GONE):
        return Refused(short, hint="somebody removed the table: onboard it again")
    if any(name in said for name in _NOT_TAKEN):
        return Refused(short, hint="HBase takes it at no time: look at its limits, and into the server's log")
    return TransientError(short, hint="it is tried again; where it stays so, look into the server's log")


def _store_of(*address: Any) -> Any:
    jvm = _running()
    if address not in jvm.stores:
        jvm.stores[address] = jvm.gateway.jvm.seamline.hbase.Store(*address)
    return jvm.stores[address]


def _running() -> _Jvm:
    global _jvm  # noqa: PLW0603 (a JVM for each process, however many connections)
    if _jvm is None or _jvm.process != os.getpid():
        # Never collected: what goes in a process that was forked would be sent to the JVM of its parent.
        _inherited.append(_jvm)
        _jvm = _Jvm(os.getpid(), _launched(settings.load().env / "hbase"))
    return _jvm


def _launched(folder: Path) -> Any:
    try:
        said = json.loads((folder / LAUNCH).read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError("HBase's client is not here", hint="./seamline setup --with hbase") from exc
    port, token = launch_gateway(
        jarpath=said["py4j"],
        classpath=":".join(said["class_path"]),
        java_path=said["java"],
        javaopts=[_MEMORY],
        redirect_stderr=subprocess.DEVNULL,
        create_new_process_group=True,
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    atexit.register(gateway.shutdown)
    return gateway


def _end() -> None:
    """A JVM that does not answer is given up; the next session has another one."""
    global _jvm  # noqa: PLW0603
    if _jvm is not None:
        _jvm.gateway.shutdown()
    _jvm = None
