"""A TCP link that can be cut, held or slowed down: it stands between a stream or a capture and a database."""

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

_CHUNK = 64 << 10
_LOOK_S = 0.05
# Closed with RST instead of FIN: what was on its way is gone.
_RESET = struct.pack("ii", 1, 0)


class State(Enum):
    OPEN = "open"
    # Connections are reset, and new ones as soon as they are made.
    CUT = "cut"
    # Nothing passes, nothing is closed: as a router that drops packets.
    SILENT = "silent"
    # What the server says does not arrive; what is said to it does.
    NO_ANSWERS = "no answers"


class Link:
    """`delay_s`: how long each chunk waits on its way."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closed = threading.Event()
        self.port: int = self._listener.getsockname()[1]
        self.state = State.OPEN
        self.delay_s = 0.0
        # Sockets of the clients that are carried, and those of them that shall be reset.
        self._carried: set[socket.socket] = set()
        self._doomed: set[socket.socket] = set()
        # Those that are forgotten, as by a firewall: nothing of them passes any more.
        self._forgotten: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def reset(self) -> None:
        """Reset whoever is connected now; who comes later is carried as the state says."""
        self._doomed = set(self._carried)

    def forget(self) -> None:
        """Carry nothing more for whoever is connected now, and close nothing; who comes later is carried."""
        self._forgotten |= self._carried

    @property
    def has_reset(self) -> bool:
        return not self._doomed & self._carried

    def _accept(self) -> None:
        while not self._closed.is_set():
            with suppress(OSError):
                client, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        ends = [client]
        self._carried.add(client)
        try:
            ends.append(socket.create_connection(self._target, timeout=10))
            while not self._closed.is_set() and self.state is not State.CUT and client not in self._doomed:
                if self.state is State.SILENT or client in self._forgotten:
                    self._closed.wait(_LOOK_S)
                elif not self._pass_on(ends[0], ends[1]):
                    return
        except OSError:
            return
        finally:
            for end in ends:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.close()
            self._carried.discard(client)
            self._forgotten.discard(client)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> bool:
        """Whatever waits on either side; False once a side has closed."""
        heard = [client] if self.state is State.NO_ANSWERS else [client, server]
        ready, _, _ = select.select(heard, [], [], _LOOK_S)
        for end in ready:
            if end is server and self.state is State.NO_ANSWERS:
                # It came between the two lines above.
                continue
            chunk = end.recv(_CHUNK)
            if not chunk:
                return False
            if self.delay_s:
                self._closed.wait(self.delay_s)
            (server if end is client else client).sendall(chunk)
        return True


@contextmanager
def link_to(host: str, port: int) -> Iterator[Link]:
    link = Link(host, port)
    try:
        yield link
    finally:
        link.close()
