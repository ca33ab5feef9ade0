"""An FTP server of a module of tests: pyftpdlib in this process."""

import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

from seamline.adapters.connections import Connection


@dataclass(frozen=True)
class Ftp:
    """`connection` reaches `folder`, in which nothing lies; it is the server's root."""

    connection: Connection
    folder: Path


@contextmanager
def running(folder: Path) -> Iterator[Ftp]:
    logging.getLogger("pyftpdlib").setLevel(logging.WARNING)
    password = secrets.token_hex(8)
    authorizer = DummyAuthorizer()
    authorizer.add_user("partner", password, str(folder), perm="elradfmwMT")
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    server = FTPServer(("127.0.0.1", 0), handler)
    host, port = server.socket.getsockname()[:2]
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            server.ioloop.loop(timeout=0.05, blocking=False)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield Ftp(Connection("partner", "ftp", host, port, "partner", password), folder)
    finally:
        ended.set()
        serving.join()
        server.close_all()
