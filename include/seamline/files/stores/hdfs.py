"""HDFS by WebHDFS: RENAME refuses a name that is there, and answers `false`. CREATE shows a file while it is written,
so no file gets its name by it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.server_found import ServerFound
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.store import Sendable, Writable

_PIECE_BYTES = 2**20
_TIMEOUTS = httpx.Timeout(60, connect=10)
_REFUSED = ("AccessControlException", "SecurityException")


class HdfsStore:
    """`store.Store` below a folder of a file system."""

    def __init__(self, client: httpx.Client, login: str, root: str) -> None:
        self._client = client
        self._login = {"user.name": login} if login else {}
        self._root = root.rstrip("/")
        self._is_known = False

    def names(self, folder: str) -> Sequence[str]:
        with self._translated(f"list {folder or 'the folder'}"):
            self._require_root()
            try:
                found = self._asked("GET", folder, "LISTSTATUS")["FileStatuses"]["FileStatus"]
            except FileNotFoundError:
                return ()
            return sorted(one["pathSuffix"] for one in found if one["pathSuffix"])

    def size(self, path: str) -> int | None:
        with self._translated(f"look for {path}"):
            try:
                return int(self._asked("GET", path, "GETFILESTATUS")["FileStatus"]["length"])
            except FileNotFoundError:
                self._require_root()
                return None

    def write(self, path: str, content: Sendable) -> None:
        with self._translated(f"write {path}"):
            self._require_root()
            size = 0

            def pieces() -> Iterator[bytes]:
                nonlocal size
                while piece := content.read(_PIECE_BYTES):
                    size += len(piece)
                    yield piece

            self._write(path, pieces())
            if (there := self.size(path)) != size:
                raise OSError(f"{size} bytes were written, and {there} are there")

    def read(self, path: str, into: Writable) -> None:
        with self._translated(f"read {path}"):
            asked = self._request("GET", path, "OPEN")
            with self._client.stream("GET", asked, follow_redirects=True) as answer:
                if answer.is_error:
                    answer.read()
                    raise _error_of(answer)
                for piece in answer.iter_bytes(_PIECE_BYTES):
                    into.write(piece)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        with self._translated(f"write {path}"):
            self._require_root()
            folder, _, name = path.rpartition("/")
            draft = f"{folder}/{draft_of(name)}"
            self._write(draft, iter([content]))
            if self._renamed(draft, path):
                return True
            self._asked("DELETE", draft, "DELETE")
            return False

    def read_put(self, path: str) -> bytes:
        with self._translated(f"read {path}"):
            answer = self._client.get(self._request("GET", path, "OPEN"), follow_redirects=True)
            return _right(answer).content

    def place(self, source: str, target: str) -> bool:
        with self._translated(f"place {target}"):
            folder = target.rpartition("/")[0]
            self._asked("PUT", folder, "MKDIRS")
            return self._renamed(source, target)

    def remove(self, path: str) -> None:
        with self._translated(f"remove {path}"):
            self._asked("DELETE", path, "DELETE")

    def remove_folder(self, folder: str) -> None:
        with self._translated(f"remove {folder}"):
            self._asked("DELETE", folder, "DELETE", recursive="true")

    def drop_unfinished(self, folder: str, before: datetime) -> int:  # noqa: ARG002
        """None: each is a file of its attempt."""
        return 0

    def close(self) -> None:
        self._client.close()

    def _write(self, path: str, pieces: Iterator[bytes]) -> None:
        """The name node says which data node takes it."""
        asked = self._client.put(self._request("PUT", path, "CREATE", overwrite="true"))
        if not asked.has_redirect_location:
            raise _error_of(asked)
        _right(self._client.put(asked.headers["location"], content=pieces))

    def _renamed(self, source: str, target: str) -> bool:
        """`false` says that it is not renamed, and not why."""
        if self._asked("PUT", source, "RENAME", destination=self._at(target))["boolean"]:
            return True
        if self.size(source) is None:
            raise FileNotFoundError(source)
        if self.size(target) is None:
            raise OSError(f"{target} is not there, and {source} cannot be renamed to it")
        return False

    def _asked(self, method: str, path: str, operation: str, **how: str) -> Mapping[str, Any]:
        answer = self._client.request(method, self._request(method, path, operation, **how))
        found: Mapping[str, Any] = _right(answer).json()
        return found

    def _request(self, method: str, path: str, operation: str, **how: str) -> httpx.URL:
        request = self._client.build_request(
            method, quote(f"/webhdfs/v1{self._at(path)}"), params={"op": operation, **how, **self._login}
        )
        return request.url

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _require_root(self) -> None:
        """CREATE makes every folder above a file, also one that is spelled wrong."""
        if not self._is_known:
            try:
                self._asked("GET", "", "GETFILESTATUS")
            except FileNotFoundError:
                raise NotADirectoryError(f"{self._root} is not there") from None
            self._is_known = True

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except PermissionError as exc:
            raise ConfigError(f"cannot {doing} on HDFS: {exc}", hint="let the login of the connection do that") from exc
        except (OSError, httpx.HTTPError, ValueError, KeyError) as exc:
            raise TransientError(
                f"cannot {doing} on HDFS below {self._root or '/'}: {exc or type(exc).__name__}",
                hint="it is tried again; if it stays: is the folder there, is it full, does the name node answer",
            ) from exc


def opened(root: str, connection: Connection) -> HdfsStore:
    address = f"http://{connection.host}:{connection.port}"
    return HdfsStore(httpx.Client(base_url=address, timeout=_TIMEOUTS), connection.login, root)


def examined(connection: Connection) -> ServerFound:
    """ConfigError: the login may not even look at the root. TransientError: no HDFS answers there."""
    with closing(opened("/", connection)) as store:
        store.size("")
    return ServerFound(f"HDFS at {connection.host}:{connection.port}", "in the clear")


def _right(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise _error_of(answer)
    return answer


def _error_of(answer: httpx.Response) -> OSError:
    """As HDFS says it: the name of an exception of Java, and its message."""
    try:
        said = answer.json()["RemoteException"]
    except (ValueError, KeyError, TypeError):
        return OSError(f"it answers {answer.status_code}")
    message = str(said.get("message", "")).partition("\n")[0]
    if said.get("exception") == "FileNotFoundException":
        return FileNotFoundError(message)
    return PermissionError(message) if said.get("exception") in _REFUSED else OSError(message)
