"""A session of ours, lent to connectorx, which can only open connections of its own.

connectorx 0.4.6 opens a connection per query, in the clear, and keeps Python's lock while it waits for rows. Here it
connects to a port of this machine, where a process of its own greets it as a server would and then passes bytes on to
a session that is open already, and encrypted where it has to be. So one session reads any number of tables, one after
another, at the one position at which its snapshot stands.

A client is let in by a password of this relay alone (mysql_native_password). Behind the greeting nothing is looked at
but where a command begins, so that the end of a client does not end the session.
"""

import ctypes
import hashlib
import os
import secrets
import selectors
import signal
import socket
import ssl
import struct
from contextlib import suppress
from typing import Any

from pymysql.constants import CLIENT

from seamline.databases.mysql.watched import WatchedSession

_BLOCK_BYTES = 256 << 10
_GREETING_S = 10.0
_PR_SET_PDEATHSIG = 1
_QUIT = 0x01
_UTF8MB4 = 45
_AUTOCOMMIT = 2
_HEADER = 4
# What a client may use: what the session has agreed upon with its server. CONNECT_WITH_DB only names what is known.
_OFFERED = (
    CLIENT.LONG_PASSWORD
    | CLIENT.LONG_FLAG
    | CLIENT.CONNECT_WITH_DB
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
)


class SessionRelay:
    """Until it is closed the session belongs to it. Made by the thread in whose time it is used: it ends with that."""

    def __init__(self, session: WatchedSession) -> None:
        self._token = secrets.token_hex(16)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
            parent = os.getpid()
            self._process = os.fork()
            if self._process == 0:
                _live(listener, session, self._token, parent)

    @property
    def url(self) -> str:
        """As connectorx takes it. `prefer_socket=false`: else it connects a second time, to a socket of the server."""
        return f"mysql://seamline:{self._token}@127.0.0.1:{self.port}?prefer_socket=false"

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._process, 0)


def _live(listener: socket.socket, session: WatchedSession, token: str, parent: int) -> None:
    """The whole life of the relaying process. Its end shows as a lost connection, whatever the cause."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # PyMySQL offers no other way.
        lent: Any = session
        server = lent._sock  # noqa: SLF001
        server.settimeout(None)
        while os.getppid() == parent:
            client, _ = listener.accept()
            with client:
                client.settimeout(_GREETING_S)
                if _greeted(client, lent.server_version, token):
                    client.settimeout(None)
                    _pass_on(client, server)
    finally:
        os._exit(0)


def _greeted(client: socket.socket, version: str, token: str) -> bool:
    """Whether the client knows the password."""
    nonce = secrets.token_hex(10).encode()
    greeting = b"".join(
        [
            b"\x0a" + version.encode() + b"\0" + struct.pack("<I", os.getpid()) + nonce[:8] + b"\0",
            struct.pack("<HBHH", _OFFERED & 0xFFFF, _UTF8MB4, _AUTOCOMMIT, _OFFERED >> 16),
            bytes([len(nonce) + 1]) + bytes(10) + nonce[8:] + b"\0mysql_native_password\0",
        ]
    )
    try:
        client.sendall(_packet(0, greeting))
        head = _exactly(client, _HEADER)
        answer = _exactly(client, _length(head))
        is_known = secrets.compare_digest(_proof_in(answer), _proof(token, nonce))
        reply = struct.pack("<BBBHH", 0, 0, 0, _AUTOCOMMIT, 0) if is_known else b"\xff\x15\x04#28000not for you"
        client.sendall(_packet(head[3] + 1, reply))
    except OSError:
        return False
    return is_known


def _proof(token: str, nonce: bytes) -> bytes:
    """What mysql_native_password makes of a password."""
    once = hashlib.sha1(token.encode()).digest()
    mask = hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest()
    return bytes(one ^ other for one, other in zip(once, mask, strict=True))


def _proof_in(answer: bytes) -> bytes:
    """Flags, sizes, character set and 23 reserved bytes; the login up to a NUL; the proof behind its length."""
    behind = answer[32:].partition(b"\0")[2]
    return behind[1 : 1 + behind[0]] if behind else b""


def _pass_on(client: socket.socket, server: Any) -> None:
    """Until the client has ended. The server's end ends this process."""
    unsent = b""
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is client:
                    block = client.recv(_BLOCK_BYTES)
                    unsent += block
                    while len(unsent) >= _HEADER and len(unsent) >= (end := _HEADER + _length(unsent)):
                        command, unsent = unsent[:end], unsent[end:]
                        if command[_HEADER:] == bytes([_QUIT]):
                            return
                        server.sendall(command)
                    if not block:
                        return
                else:
                    _answer(server, client)


def _answer(server: Any, client: socket.socket) -> None:
    while True:
        block = server.recv(_BLOCK_BYTES)
        if not block:
            raise ConnectionResetError("the server has ended the session")
        client.sendall(block)
        # What is decrypted already, the selector does not see.
        if not (isinstance(server, ssl.SSLSocket) and server.pending()):
            return


def _packet(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number]) + payload


def _length(head: bytes) -> int:
    return int.from_bytes(head[:3], "little")


def _exactly(sender: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        block = sender.recv(count - len(received))
        if not block:
            raise ConnectionResetError("the client has gone")
        received += block
    return received
