"""A warehouse that is no folder of this machine: S3 and HDFS, as file systems of pyarrow.

S3 holds a file once its writer is closed, whole or not at all; it has no folders, one is there as long as a file lies
below it. HDFS shows a file while it is written, so one whose name is known before is renamed. Neither is synced: a file
of HDFS that is closed lies in the memory of its data nodes, as many as it has replicas.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from seamline.adapters import connections
from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, Refused

_S3 = "s3://"
# What other clients call S3 in the names of files.
_OF_S3 = re.compile(r"^s3[an]://")
# `allow_delayed_open`: a small file is put by one request, and what is wrong shows when it is closed.
_OF_EVERY_S3 = {"allow_delayed_open": True, "connect_timeout": 5}
_ANSWER_S = 60


@dataclass(frozen=True, slots=True)
class Status:
    """As `os.stat_result` calls them: bytes, and seconds since 1970."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True)
class StoredPath:
    """A file or folder of a store, by those words of `pathlib` that lakes use. `prefix`: of its URL, as `s3://`
    or `hdfs://namenode:8020`; `path`: as the store's file system names it."""

    prefix: str
    path: str
    filesystem: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.prefix}{self.path}"

    def __lt__(self, other: "StoredPath") -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: "str | StoredPath") -> "StoredPath":
        return self._at(f"{self.path}/{name}")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "StoredPath":
        return self._at(self.path.rpartition("/")[0])

    @property
    def container(self) -> "StoredPath":
        """What must be there before a warehouse is: its bucket, or its folder."""
        return self._at(self.path.partition("/")[0]) if self.prefix == _S3 else self

    def is_relative_to(self, folder: object) -> bool:
        return isinstance(folder, StoredPath) and self.prefix == folder.prefix and self._below(folder) is not None

    def relative_to(self, folder: "StoredPath") -> str:
        found = self._below(folder)
        if found is None:
            raise ValueError(f"{self} does not lie in {folder}")
        return found

    def exists(self) -> bool:
        return bool(self._info().type != fs.FileType.NotFound)

    def is_dir(self) -> bool:
        return bool(self._info().type == fs.FileType.Directory)

    def is_file(self) -> bool:
        return bool(self._info().type == fs.FileType.File)

    def stat(self) -> Status:
        return _status(self._info(), self)

    def iterdir(self) -> "Iterator[StoredPath]":
        """Nothing of a folder that is not there."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        for one in sorted(self.filesystem.get_file_info(selector), key=lambda info: info.path):
            # S3 keeps an empty object under the name of a folder from which the last file went.
            if one.path.rstrip("/") != self.path:
                yield self._at(one.path.rstrip("/"))

    def files(self) -> "list[tuple[StoredPath, Status]]":
        """All files below it, by one listing."""
        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        found = [one for one in self.filesystem.get_file_info(selector) if one.type == fs.FileType.File]
        return [(self._at(one.path), _status(one, self)) for one in found]

    def read_bytes(self) -> bytes:
        with self.filesystem.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        with self.filesystem.open_output_stream(self.path) as stream:
            stream.write(content)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def write_whole(self, text: str) -> None:
        """In place of what was there: nobody sees a part of it."""
        if self.prefix == _S3:
            self.write_text(text)
            return
        draft = self.parent / f".{self.name}"
        draft.write_text(text)
        self.remove()
        self.filesystem.move(draft.path, self.path)

    def remove(self) -> None:
        """A repeat changes nothing."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path)

    def remove_folder(self) -> None:
        """With all that lies in it. A repeat changes nothing."""
        try:
            self._empty()
        except OSError:
            # An S3 over a file system refuses folders that are deleted in one call with what lies in them, and deletes
            # that: the folders go by the repeat.
            self._empty()
        if self.is_dir():
            self.filesystem.delete_dir(self.path)

    def _empty(self) -> None:
        self.filesystem.delete_dir_contents(self.path, missing_dir_ok=True)

    def _at(self, path: str) -> "StoredPath":
        return StoredPath(self.prefix, path, self.filesystem)

    def _info(self) -> Any:
        return self.filesystem.get_file_info(self.path)

    def _below(self, folder: "StoredPath") -> str | None:
        if self.path == folder.path:
            return ""
        found = self.path.removeprefix(f"{folder.path}/")
        return found if found != self.path else None


def _status(info: Any, path: StoredPath) -> Status:
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"{path} is not there")
    # What is deleted by its age stays where a store does not know it.
    return Status(int(info.size or 0), info.mtime.timestamp() if info.mtime else math.inf)


FilePath = Path | StoredPath


def is_stored(warehouse: str) -> bool:
    """Whether it is a URL of a store, not a folder."""
    return "://" in warehouse


def opened(warehouse: str, connection: str) -> StoredPath:
    """The warehouse of this URL. `connection`: the id of what leads there; "" for the machine's own credentials.

    ConfigError: the connection is of another kind. Nothing is asked of the store yet.
    """
    known = connections.resolve(connection) if connection else None
    parts = urlsplit(warehouse)
    if parts.scheme == "s3":
        return StoredPath(_S3, f"{parts.netloc}{parts.path}".rstrip("/"), _s3(known))
    if parts.scheme == "hdfs":
        return StoredPath(f"hdfs://{parts.netloc}", parts.path.rstrip("/"), _hdfs(known))
    raise Refused(f"no store is known for {warehouse}", hint="a folder, or a URL that begins with s3:// or hdfs://")


def stored_path(root: StoredPath, url: str) -> StoredPath:
    """Of a file that any writer named. Refused: it lies in another store than the warehouse."""
    url = _OF_S3.sub("s3://", url)
    if not url.startswith(root.prefix):
        raise Refused(f"{url} lies in another store than the warehouse {root}", hint="onboard that table again")
    return StoredPath(root.prefix, url.removeprefix(root.prefix), root.filesystem)


def _s3(connection: Connection | None) -> Any:
    """What is not said is found as every client of AWS finds it: variables, ~/.aws, the machine's role."""
    if connection is None:
        return fs.S3FileSystem(**_OF_EVERY_S3)
    if connection.kind != "aws":
        raise ConfigError(
            f"Connection `{connection.connection_id}` is of kind {connection.kind}",
            hint="a warehouse on S3 needs one of kind aws",
        )
    extra = connection.extra
    endpoint = urlsplit(str(extra.get("endpoint_url") or ""))
    return fs.S3FileSystem(
        access_key=connection.login or None,
        secret_key=connection.password or None,
        session_token=extra.get("aws_session_token"),
        role_arn=extra.get("role_arn"),
        region=extra.get("region_name"),
        scheme=endpoint.scheme or "https",
        endpoint_override=endpoint.netloc or None,
        tls_ca_file_path=extra.get("verify"),
        **_OF_EVERY_S3,
    )


class _Handler(fs.FSSpecHandler):  # type: ignore[misc]
    """Arrow looks for a file's age under another name than WebHDFS has."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> Any:
        moment = int(info.get("modificationTime") or 0) / 1000
        return fs.FSSpecHandler._create_file_info(path, {**info, "mtime": moment or None})  # noqa: SLF001


def _hdfs(connection: Connection | None) -> Any:
    """Through the REST of its name node, which needs no library of Hadoop's."""
    if connection is None or connection.kind != "webhdfs":
        raise ConfigError(
            "a warehouse on HDFS needs `warehouse_connection`, a connection of kind webhdfs",
            hint="host and port of the name node's HTTP service, and as its login the user whose files they are",
        )
    # Imported late: it is slow, and hardly anybody has one.
    from fsspec.implementations.webhdfs import WebHDFS

    reached = WebHDFS(connection.host, connection.port, user=connection.login or None, skip_instance_cache=True)
    reached.session.request = partial(reached.session.request, timeout=_ANSWER_S)
    return fs.PyFileSystem(_Handler(reached))
