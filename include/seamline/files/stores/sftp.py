"""SFTP: RENAME refuses a name that is there. `posix-rename`, which overwrites, is never used."""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime

import paramiko

from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError
from seamline.domain.server_found import ServerFound
from seamline.files.stores import sftp_session
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.resuming import sent_whole
from seamline.files.stores.sftp_session import BROKEN, Session
from seamline.files.stores.store import Sendable, Writable

_PIECE_BYTES = 256 * 1024
# A session that was used so lately is not asked whether it is still there.
_IDLE_S = 10


class SftpStore:
    """`store.Store` below a folder of a server."""

    def __init__(self, connect: Callable[[], Session], root: str) -> None:
        self._connect = connect
        self._root = root.rstrip("/")
        self._known = set[str]()
        self._open()

    def _open(self) -> None:
        self._session = self._connect()
        self._sftp = self._session.sftp
        self._used_s = time.monotonic()

    def _revive(self) -> None:
        """Servers end a session that asks nothing for some minutes, and what lies between may forget it without a word.
        Nothing is under way here, so another one may go on; what breaks later is never sent again by itself."""
        is_fresh = time.monotonic() - self._used_s < _IDLE_S
        if self._session.is_open and (is_fresh or self._session.answers()):
            return
        self.close()
        self._open()

    def names(self, folder: str) -> Sequence[str]:
        with self._translated(f"list {folder or 'the folder'}"):
            try:
                return sorted(self._sftp.listdir(self._at(folder)))
            except FileNotFoundError:
                if not self._is_there(""):
                    raise NotADirectoryError(f"{self._root} is not there") from None
                return ()

    def size(self, path: str) -> int | None:
        with self._translated(f"look for {path}"):
            try:
                return int(self._sftp.stat(self._at(path)).st_size)
            except FileNotFoundError:
                return None

    def write(self, path: str, content: Sendable) -> None:
        def send(offset: int) -> None:
            with self._naming_a_break(), self._opened(path, offset) as remote:
                remote.set_pipelined(True)
                size = offset
                while piece := content.read(_PIECE_BYTES):
                    remote.write(piece)
                    size += len(piece)
            if (there := self._sftp.stat(self._at(path)).st_size) != size:
                raise OSError(f"{size} bytes were written, and {there} are there")

        def there() -> int | None:
            self.close()
            self._open()
            return self.size(path)

        with self._translated(f"write {path}"):
            sent_whole(content, send, there=there, broken=BROKEN)

    def read(self, path: str, into: Writable) -> None:
        with self._translated(f"read {path}"):
            self._sftp.getfo(self._at(path), into)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        with self._translated(f"write {path}"):
            folder, _, name = self._made(path).rpartition("/")
            draft = f"{folder}/{draft_of(name)}"
            self._sftp.putfo(io.BytesIO(content), draft)
            if self._renamed(draft, self._at(path)):
                return True
            self._sftp.remove(draft)
            return False

    def read_put(self, path: str) -> bytes:
        found = io.BytesIO()
        self.read(path, found)
        return found.getvalue()

    def place(self, source: str, target: str) -> bool:
        with self._translated(f"place {target}"):
            return self._renamed(self._at(source), self._made(target))

    def remove(self, path: str) -> None:
        with self._translated(f"remove {path}"), suppress(FileNotFoundError):
            self._sftp.remove(self._at(path))

    def remove_folder(self, folder: str) -> None:
        with self._translated(f"remove {folder}"), suppress(FileNotFoundError):
            for name in self._sftp.listdir(self._at(folder)):
                self._sftp.remove(f"{self._at(folder)}/{name}")
            self._sftp.rmdir(self._at(folder))
        self._known.clear()

    def drop_unfinished(self, folder: str, before: datetime) -> int:  # noqa: ARG002
        """None: each is a file of its attempt."""
        return 0

    def close(self) -> None:
        self._session.close()

    def _opened(self, path: str, offset: int) -> paramiko.SFTPFile:
        if offset:
            file = self._sftp.file(self._at(path), "r+b")
            file.seek(offset)
            return file
        try:
            return self._sftp.file(self._made(path), "wb")
        except FileNotFoundError:
            # Somebody has removed a folder that was there: a run that was taken for dead.
            self._known.clear()
            return self._sftp.file(self._made(path), "wb")

    def _renamed(self, source: str, target: str) -> bool:
        """A server answers every refusal by the same code: what is there says which one it was."""
        try:
            self._sftp.rename(source, target)
        except OSError:
            self._sftp.stat(source)
            with suppress(FileNotFoundError):
                self._sftp.stat(target)
                return False
            raise
        return True

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _made(self, path: str) -> str:
        """With the folders above it. Not the root."""
        *folders, _ = path.split("/")
        for count in range(1, len(folders) + 1):
            folder = "/".join(folders[:count])
            if folder in self._known:
                continue
            if not self._is_there(folder):
                with suppress(OSError):  # Somebody else may have made it.
                    self._sftp.mkdir(self._at(folder))
                if not self._is_there(folder):
                    raise NotADirectoryError(f"{self._at(folder)} cannot be made")
            self._known.add(folder)
        return self._at(path)

    def _is_there(self, folder: str) -> bool:
        try:
            self._sftp.stat(self._at(folder))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _naming_a_break(self) -> Iterator[None]:
        """A server's refusal and a connection that is gone are both a plain OSError to paramiko."""
        try:
            yield
        except OSError as exc:
            if isinstance(exc, BROKEN) or self._session.is_open:
                raise
            raise ConnectionResetError(str(exc)) from exc

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            self._revive()
            yield
            self._used_s = time.monotonic()
        except FileNotFoundError:
            raise
        except (OSError, EOFError, paramiko.SSHException) as exc:
            if isinstance(exc, BROKEN):
                # An answer that is late would be in the way of the next one.
                self.close()
            raise TransientError(
                f"cannot {doing} on the SFTP server below {self._root or '/'}: {exc or type(exc).__name__}",
                hint="it is tried again; if it stays: is the folder there, is it full, may this login write",
            ) from exc


def opened(root: str, connection: Connection) -> SftpStore:
    """ConfigError: the server is another one than the connection says, or does not take the login."""
    return SftpStore(lambda: sftp_session.opened(connection), root)


def examined(connection: Connection) -> ServerFound:
    """Errors as of `opened`."""
    with closing(sftp_session.opened(connection)) as session:
        version, cipher = session.transport.remote_version, session.transport.remote_cipher
    return ServerFound(f"SFTP of {version.rpartition('SSH-2.0-')[2]}", f"encrypted ({cipher})")
