"""An FTP server of a module of tests: pyftpdlib in this process, in the clear or by TLS, or as a process of its own."""

import logging
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, TLS_DTPHandler, TLS_FTPHandler
from pyftpdlib.ioloop import IOLoop
from pyftpdlib.servers import FTPServer

from seamline.adapters.connections import Connection
from tests.certificates import Pair
from tests.daemon import Daemon, free_port, is_open

_LOGIN, _PASSWORD, _ALL_RIGHTS = "partner", "of-tests", "elradfmwMT"


@dataclass(frozen=True)
class Ftp:
    """`connection` reaches `folder`, in which nothing lies; it is the server's root."""

    connection: Connection
    folder: Path


class _OfTheSameSession(TLS_DTPHandler):  # type: ignore[misc]
    """As vsftpd with `require_ssl_reuse`: a data connection resumes the session of the commands, or is refused."""

    def handle_ssl_established(self) -> None:
        if not SSL._lib.SSL_session_reused(self.socket._ssl):  # type: ignore[attr-defined]  # noqa: SLF001
            self.cmd_channel.respond("522 SSL connection failed: session reuse required")
            self.close()


def _handler(encrypted_by: Pair | None) -> tuple[type[Any], dict[str, Any]]:
    if encrypted_by is None:
        return FTPHandler, {}
    files = {"certfile": str(encrypted_by.certificate), "keyfile": str(encrypted_by.key)}
    return TLS_FTPHandler, {
        **files,
        "tls_control_required": True,
        "tls_data_required": True,
        "dtp_handler": _OfTheSameSession,
    }


def _authorizer(password: str, folder: Path, rights: str) -> DummyAuthorizer:
    authorizer = DummyAuthorizer()
    authorizer.add_user(_LOGIN, password, str(folder), perm=rights)
    return authorizer


@contextmanager
def running(
    folder: Path, *, encrypted_by: Pair | None = None, rights: str = _ALL_RIGHTS, **otherwise: Any
) -> Iterator[Ftp]:
    """`encrypted_by`: the server's certificate; nobody is served in the clear then. `rights`: of the login, by
    pyftpdlib's letters. `otherwise`: members of its handler, for what other servers do."""
    logging.getLogger("pyftpdlib").setLevel(logging.WARNING)
    password = secrets.token_hex(8)
    kind, settings = _handler(encrypted_by)
    handler = type("Handler", (kind,), {"authorizer": _authorizer(password, folder, rights), **settings, **otherwise})
    # Without a loop of its own, it would take down every other server of this process when it ends.
    server = FTPServer(("127.0.0.1", 0), handler, ioloop=IOLoop())
    host, port = server.socket.getsockname()[:2]
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            server.ioloop.loop(timeout=0.05, blocking=False)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield Ftp(Connection("partner", "ftp", host, port, _LOGIN, password), folder)
    finally:
        ended.set()
        serving.join()
        server.close_all()


@contextmanager
def killable(folder: Path, log: Path, *, encrypted_by: Pair | None = None) -> Iterator[tuple[Ftp, Daemon]]:
    """By a process of its own. `log`: a file of what it says. `encrypted_by`: as of `running`."""
    port = free_port()
    pair = () if encrypted_by is None else (str(encrypted_by.certificate), str(encrypted_by.key))
    command = [sys.executable, "-m", __name__, str(folder), str(port), *pair]
    daemon = Daemon(lambda: command, log, answers=lambda: is_open(port))
    daemon.start()
    try:
        yield Ftp(Connection("partner", "ftp", "127.0.0.1", port, _LOGIN, _PASSWORD), folder), daemon
    finally:
        daemon.kill()


def _serve(folder: str, port: str, *pair: str) -> None:
    kind, settings = _handler(Pair(*map(Path, pair)) if pair else None)
    handler = type("Handler", (kind,), {"authorizer": _authorizer(_PASSWORD, Path(folder), _ALL_RIGHTS), **settings})
    FTPServer(("127.0.0.1", int(port)), handler).serve_forever()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
