"""SFTP: RENAME refuses a name that is there. `posix-rename`, which overwrites, is never used."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import paramiko

from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, TransientError
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.resuming import sent_whole
from seamline.files.stores.store import Sendable, Writable

_PIECE_BYTES = 256 * 1024
# `Transport.connect` of paramiko 4 says so by its words alone.
_OTHER_KEY = "Bad host key"
_ANSWER_S = 60
_BROKEN = (ConnectionError, TimeoutError, EOFError, paramiko.SSHException)
_KEEP_ALIVE_S = 30
# A key of RSA signs under other names than its own.
_OF_KEY = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class SftpStore:
    """`store.Store` below a folder of a server."""

    def __init__(self, connect: Callable[[], paramiko.Transport], root: str) -> None:
        self._connect = connect
        self._root = root.rstrip("/")
        self._known = set[str]()
        self._open()

    def _open(self) -> None:
        self._transport = self._connect()
        self._sftp: Any = paramiko.SFTPClient.from_transport(self._transport)
        self._sftp.get_channel().settimeout(_ANSWER_S)

    def names(self, folder: str) -> Sequence[str]:
        with self._translated(f"list {folder}"):
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
            sent_whole(content, send, there=there, broken=_BROKEN)

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
        self._transport.close()

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
            if isinstance(exc, _BROKEN) or self._transport.is_active():
                raise
            raise ConnectionResetError(str(exc)) from exc

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, EOFError, paramiko.SSHException) as exc:
            raise TransientError(
                f"cannot {doing} on the SFTP server below {self._root or '/'}: {exc or type(exc).__name__}",
                hint="it is tried again; if it stays: is the folder there, is it full, may this login write",
            ) from exc


def opened(root: str, connection: Connection) -> SftpStore:
    """ConfigError: the server is another one than the connection says, or does not take the login."""
    return SftpStore(lambda: _connected(connection), root)


def _connected(connection: Connection) -> paramiko.Transport:
    where = f"the SFTP server of connection `{connection.connection_id}`"
    expected = _host_key(connection)
    key_file = connection.extra.get("key_file")
    try:
        key = paramiko.PKey.from_path(key_file) if key_file else None
        transport = paramiko.Transport((connection.host, connection.port))
        transport.banner_timeout = transport.auth_timeout = _ANSWER_S
        transport.set_keepalive(_KEEP_ALIVE_S)
        # Of several keys that a server has, the one that is known is asked for.
        transport.get_security_options().key_types = _OF_KEY.get(expected.get_name(), (expected.get_name(),))
        transport.connect(expected, connection.login, connection.password or None, key)
    except (paramiko.BadHostKeyException, paramiko.AuthenticationException) as exc:
        raise ConfigError(f"{where} is refused or refuses: {exc}", hint="check host_key, login and key_file") from exc
    except (OSError, EOFError, paramiko.SSHException) as exc:
        if _OTHER_KEY in str(exc):
            raise ConfigError(f"{where} is refused: {exc}", hint="check host and host_key") from exc
        raise TransientError(f"{where} does not answer: {exc or type(exc).__name__}", hint="it is tried again") from exc
    return transport


def _host_key(connection: Connection) -> Any:
    """Without it anybody could be the server."""
    kind, _, content = str(connection.extra.get("host_key", "")).partition(" ")
    try:
        return paramiko.PKey.from_type_string(kind, base64.b64decode(content.split(" ")[0]))
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as exc:
        raise ConfigError(
            f"Connection `{connection.connection_id}` does not say by which key its server is known",
            hint="add host_key to its extra, as `ssh-keyscan` prints it: `ssh-ed25519 AAAA…`",
        ) from exc
