"""FTP, in the clear or by TLS. RNTO silently comes over a file, but never over a folder in which something lies: what
must be put once is a folder of that name with one file in it, which is filled under another name and then renamed.

Of what is placed, nobody but who shows this delivery writes under these names: that nothing is there is asked before.
"""

import ftplib
import io
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime

from seamline.adapters.connections import Connection
from seamline.adapters.tls import LOST
from seamline.domain.errors import TransientError
from seamline.domain.server_found import ServerFound
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.ftp_session import opened, tls_trouble
from seamline.files.stores.resuming import sent_whole
from seamline.files.stores.store import Readable, Sendable, Writable

_CONTENT = "content"
# A connection that is gone, and not a server's refusal.
_BROKEN = (ConnectionError, TimeoutError, EOFError, ftplib.error_temp, *LOST)
# 450: ProFTPD's answer for a folder that is missing.
_NOTHING_LISTED = ("450", "550")
# What servers say of an empty folder that they do not list.
_NO_FILES = re.compile(r"no (such )?files?\b", re.IGNORECASE)


class FtpStore:
    """`store.Store` below a folder of a server."""

    def __init__(self, connection: Connection, root: str) -> None:
        self._connection = connection
        self._root = root.rstrip("/")
        self._opened: ftplib.FTP | None = None

    def names(self, folder: str) -> Sequence[str]:
        with self._session(f"list {folder or 'the folder'}") as ftp:
            found = {name.rpartition("/")[2] for name in _listed(ftp, self._at(folder))} - {".", ".."}
            if not found:
                # Else a place that is away would be an empty one.
                ftp.cwd(self._root or "/")
            return sorted(found)

    def size(self, path: str) -> int | None:
        with self._session(f"look for {path}") as ftp:
            return _size(ftp, self._at(path))

    def write(self, path: str, content: Sendable) -> None:
        def send(offset: int) -> None:
            with self._answering():
                self._store(self._alive(), path, content, offset)

        def there() -> int | None:
            with self._answering():
                return _size(self._alive(), self._at(path))

        with self._session(f"write {path}"):
            sent_whole(content, send, there=there, broken=_BROKEN)

    def read(self, path: str, into: Writable) -> None:
        with self._session(f"read {path}") as ftp:
            if _size(ftp, self._at(path)) is None:
                raise FileNotFoundError(path)
            ftp.retrbinary(f"RETR {self._at(path)}", into.write)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/{draft_of(name)}"
        with self._session(f"write {path}") as ftp:
            self._store(ftp, f"{draft}/{_CONTENT}", io.BytesIO(content))
            try:
                ftp.rename(self._at(draft), self._at(path))
            except ftplib.error_perm:
                if _size(ftp, f"{self._at(path)}/{_CONTENT}") is None:
                    raise
                _remove(ftp, self._at(draft))
                return False
            return True

    def read_put(self, path: str) -> bytes:
        found = io.BytesIO()
        self.read(f"{path}/{_CONTENT}", found)
        return found.getvalue()

    def place(self, source: str, target: str) -> bool:
        with self._session(f"place {target}") as ftp:
            if _size(ftp, self._at(target)) is not None:
                return False
            if _size(ftp, self._at(source)) is None:
                raise FileNotFoundError(source)
            self._make_folders(ftp, target)
            ftp.rename(self._at(source), self._at(target))
            return True

    def remove(self, path: str) -> None:
        with self._session(f"remove {path}") as ftp:
            _remove(ftp, self._at(path))

    def remove_folder(self, folder: str) -> None:
        names = self.names(folder)
        with self._session(f"remove {folder}") as ftp:
            for name in names:
                _remove(ftp, self._at(f"{folder}/{name}"))
            with suppress(ftplib.error_perm):
                ftp.rmd(self._at(folder))

    def drop_unfinished(self, folder: str, before: datetime) -> int:  # noqa: ARG002
        """None: each is a file of its attempt."""
        return 0

    def encryption(self) -> str:
        """Of its session, for people."""
        with self._session("open a session") as ftp:
            return f"encrypted ({ftp.sock.version()})" if isinstance(ftp.sock, ssl.SSLSocket) else "in the clear"

    def close(self) -> None:
        if self._opened is not None and self._opened.sock is not None:
            with suppress(*ftplib.all_errors):
                self._opened.quit()

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _store(self, ftp: ftplib.FTP, path: str, content: Readable, offset: int = 0) -> None:
        self._make_folders(ftp, path)
        ftp.storbinary(f"STOR {self._at(path)}", content, rest=offset or None)

    def _make_folders(self, ftp: ftplib.FTP, path: str) -> None:
        """Above a path. Not the root."""
        *folders, _ = path.split("/")
        for count in range(1, len(folders) + 1):
            with suppress(ftplib.error_perm):
                ftp.mkd(self._at("/".join(folders[:count])))

    @contextmanager
    def _session(self, doing: str) -> Iterator[ftplib.FTP]:
        try:
            with self._answering():
                yield self._alive()
        except FileNotFoundError:
            raise
        except ftplib.all_errors as exc:
            if cure := tls_trouble(self._connection, exc):
                raise TransientError(
                    f"cannot {doing} on the FTP server of connection `{self._connection.connection_id}`, perhaps for"
                    f" TLS: {exc or type(exc).__name__}",
                    hint=cure,
                ) from exc
            raise TransientError(
                f"cannot {doing} on the FTP server of connection `{self._connection.connection_id}`:"
                f" {exc or type(exc).__name__}",
                hint="it is tried again; if it stays: is the folder there, is it full, may this login list and write",
            ) from exc

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A session in which anything but a refusal happens is left: the answer to a transfer that failed may come
        late, as the answer to the next command."""
        try:
            yield
        except (FileNotFoundError, ftplib.error_perm):
            raise
        except BaseException:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            raise

    def _alive(self) -> ftplib.FTP:
        """Servers end a session that asks nothing for some minutes."""
        if self._opened is not None:
            try:
                self._opened.voidcmd("NOOP")
            except ftplib.all_errors:
                self._opened.close()
                self._opened = None
            else:
                return self._opened
        self._opened = opened(self._connection)
        return self._opened


def examined(connection: Connection) -> ServerFound:
    """ConfigError: the server refuses the login, or TLS. TransientError: it does not answer."""
    with closing(FtpStore(connection, "")) as store:
        return ServerFound("an FTP server", store.encryption())


def _listed(ftp: ftplib.FTP, folder: str) -> list[str]:
    """Servers answer a folder that is empty, and one that is missing, in either way, and by the same codes one that
    this login may not list."""
    try:
        return ftp.nlst(folder)
    except (ftplib.error_perm, ftplib.error_temp) as exc:
        if not str(exc).startswith(_NOTHING_LISTED):
            raise
        if _is_there(ftp, folder) and not _NO_FILES.search(str(exc)):
            raise
        return []


def _is_there(ftp: ftplib.FTP, folder: str) -> bool:
    try:
        ftp.cwd(folder)
    except ftplib.error_perm as exc:
        _require_absence(exc)
        return False
    return True


def _require_absence(refused: ftplib.error_perm) -> None:
    """A refusal that says anything else, as 522 of a data connection, says nothing of what lies there."""
    if not str(refused).startswith("550"):
        raise refused


def _remove(ftp: ftplib.FTP, path: str) -> None:
    with suppress(ftplib.error_perm):
        ftp.delete(path)
        return
    with suppress(ftplib.error_perm):
        ftp.delete(f"{path}/{_CONTENT}")
    with suppress(ftplib.error_perm):
        ftp.rmd(path)


def _size(ftp: ftplib.FTP, path: str) -> int | None:
    ftp.voidcmd("TYPE I")
    try:
        return ftp.size(path)
    except ftplib.error_perm as exc:
        _require_absence(exc)
        return None
