"""A session at a Redis server, and its errors as Seamline's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)
from redis.retry import Retry

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.domain.errors import ConfigError, SeamlineError, TransientError

# A script of this many rows may keep every other one waiting: three times of what was measured.
_ROW_S = 100e-6
_CONNECT_S = 10.0
_TLS: Mapping[str, Mapping[str, Any]] = {
    "disable": {},
    "require": {"ssl_cert_reqs": "none", "ssl_check_hostname": False},
    "verify-ca": {"ssl_cert_reqs": "required", "ssl_check_hostname": False},
    "verify-full": {"ssl_cert_reqs": "required", "ssl_check_hostname": True},
}
_FILES = {"sslrootcert": "ssl_ca_certs", "sslcert": "ssl_certfile", "sslkey": "ssl_keyfile"}
# What a server says that will be another one, or a free one, in a moment.
_BUSY = ("BUSY", "LOADING", "MASTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "CLUSTERDOWN")

packed = msgspec.msgpack.Encoder().encode
unpacked = msgspec.msgpack.Decoder().decode


class Session:
    """One socket. Nothing is sent twice by itself: an answer that is lost is the caller's to resolve."""

    def __init__(self, client: "Redis") -> None:
        self._client = client
        self._scripts: dict[str, Any] = {}

    def run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """A script by its hash; its text is sent once more where the server does not know it (any more)."""
        if script not in self._scripts:
            self._scripts[script] = self._client.register_script(script)
        return self._scripts[script](keys=list(keys), args=list(arguments))

    @property
    def client(self) -> Any:
        """For single commands; what it answers are bytes."""
        return self._client

    def fields(self, key: str) -> dict[str, str]:
        """Of a hash; empty where there is none."""
        return {name.decode(): value.decode() for name, value in self.client.hgetall(key).items()}

    def members(self, key: str) -> list[str]:
        """Of a set, in the order of names."""
        return sorted(one.decode() for one in self.client.smembers(key))

    def close(self) -> None:
        self._client.close()
        self._client.connection_pool.disconnect()


def open_session(connection: Connection, *, rows_max: int, name: str = "seamline") -> Session:
    """Connected, and the login accepted. `rows_max`: how many rows a script of somebody's may write."""
    mode = str(connection.extra.get("sslmode", "disable"))
    files = {theirs: str(connection.extra[ours]) for ours, theirs in _FILES.items() if connection.extra.get(ours)}
    tls: dict[str, Any] = {"ssl": mode != "disable", **_TLS[mode], **files}
    with translated(f"connect to {connection.connection_id}"):
        client = Redis(
            host=connection.host,
            port=connection.port,
            db=int(connection.extra.get("db", 0)),
            username=connection.login or None,
            password=connection.password or None,
            **tls,
            socket_timeout=SILENCE_S + rows_max * _ROW_S,
            socket_connect_timeout=_CONNECT_S,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name=name,
            single_connection_client=True,
        )
        client.ping()
    return Session(client)


@contextmanager
def translated(doing: str, *, table: str = "") -> Iterator[None]:
    """Redis' errors as ours. A lost connection is transient: who has sent a commit catches that before."""
    try:
        yield
    except RedisError as exc:
        raise error_of(exc, doing, table=table) from exc


def error_of(exc: RedisError, doing: str, *, table: str = "") -> SeamlineError:
    said = f"Redis could not {doing}: {exc}"
    if isinstance(exc, AuthenticationError):
        return ConfigError(said, hint="check login and password of its connection", table=table)
    if isinstance(exc, (AuthorizationError, NoPermissionError)):
        return ConfigError(said, hint="`seamline grants` prints the ACL that its logins need", table=table)
    if isinstance(exc, OutOfMemoryError):
        return TransientError(said, hint="raise its maxmemory, or remove what nobody needs", table=table)
    is_away = isinstance(exc, (ConnectionError, TimeoutError, ReadOnlyError)) or str(exc).startswith(_BUSY)
    hint = "it is tried again" if is_away else "it is tried again; where it stays so, look into the server's log"
    return TransientError(said, hint=hint, table=table)
