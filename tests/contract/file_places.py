"""Places that files may lie at: a folder, and servers of a session of tests."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from seamline import settings
from seamline.adapters.connections import Connection
from tests import ftp_server, s3_server, ssh_server
from tests.certificates import Authority
from tests.hdfs_server import Hdfs


@dataclass(frozen=True)
class Place:
    """Where files are delivered. `seen`: what a partner finds there by a client of his own in a folder, "" for all of
    them, by path; `put`: what he or anybody else writes there, and None to remove it."""

    location: str
    connection: str
    seen: Callable[[str], Mapping[str, bytes]]
    put: Callable[[str, bytes | None], None]

    def below(self, folder: str) -> "Place":
        """A place of its own in this one, which is made here: maintenance looks at all that lies in its place."""
        self.put(f"{folder}/made", b"")
        self.put(f"{folder}/made", None)

        def seen(under: str) -> dict[str, bytes]:
            found = self.seen(f"{folder}/{under}".rstrip("/"))
            return {path.removeprefix(f"{folder}/"): content for path, content in found.items()}

        def put(path: str, content: bytes | None) -> None:
            self.put(f"{folder}/{path}", content)

        return Place(f"{self.location}/{folder}", self.connection, seen, put)


def folder_place(location: str, connection: str, folder: Path) -> Place:
    def seen(under: str) -> dict[str, bytes]:
        files = [path for path in (folder / under).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    def put(path: str, content: bytes | None) -> None:
        if content is None:
            (folder / path).unlink()
        else:
            for parent in [*reversed((folder / path).relative_to(folder).parents)][1:]:
                if not (folder / parent).is_dir():
                    (folder / parent).mkdir()
                    # The server is another account.
                    (folder / parent).chmod(0o777)
            (folder / path).write_bytes(content)

    return Place(location, connection, seen, put)


def stored_place(location: str, connection: str, filesystem: fs.FileSystem, root: str) -> Place:
    def seen(under: str) -> dict[str, bytes]:
        place = f"{root}/{under}".rstrip("/")
        found = filesystem.get_file_info(fs.FileSelector(place, recursive=True, allow_not_found=True))
        files = [one.path for one in found if one.type == fs.FileType.File]
        return {path.removeprefix(f"{root}/"): filesystem.open_input_stream(path).read() for path in files}

    def put(path: str, content: bytes | None) -> None:
        if content is None:
            filesystem.delete_file(f"{root}/{path}")
            return
        with filesystem.open_output_stream(f"{root}/{path}") as stream:
            stream.write(content)

    return Place(location, connection, seen, put)


def hdfs_place(hdfs: Hdfs, root: str, connection: str) -> Place:
    """A folder that is made here."""
    hdfs.client.mkdirs(root)

    def seen(under: str) -> Mapping[str, bytes]:
        with suppress(FileNotFoundError):
            found = hdfs.client.find(f"{root}/{under}".rstrip("/"))
            return {path.removeprefix(f"{root}/"): hdfs.client.cat_file(path) for path in found}
        return {}

    def put(path: str, content: bytes | None) -> None:
        if content is None:
            hdfs.client.rm(f"{root}/{path}")
            return
        with hdfs.client.open(f"{root}/{path}", "wb") as file:
            file.write(content)

    return Place(f"hdfs://{root}", connection, seen, put)


class Places:
    """A place of each store, opened when it is first asked for."""

    def __init__(self, opened: ExitStack, folder: Path) -> None:
        self._opened, self._folder = opened, folder
        # By its id, as an environment variable says it.
        self.connections: dict[str, str] = {}
        self._found: dict[str, Place] = {}

    def of(self, store: str) -> Place:
        if store not in self._found:
            self._found[store] = getattr(self, f"_{store}")()
        return self._found[store]

    def _local(self) -> Place:
        return folder_place(str(self._folder), "", self._folder)

    def _s3(self) -> Place:
        store = self._opened.enter_context(s3_server.running())
        self.connections["objects"] = store.connection
        root = f"{store.bucket}/outgoing"
        return stored_place(f"s3://{root}", "objects", store.filesystem, root)

    def _sftp(self) -> Place:
        server = self._opened.enter_context(ssh_server.running(settings.load()))
        self.connections["ssh"] = said(server.connection)
        return folder_place(f"sftp://{server.folder}", "ssh", server.folder)

    def _ftp(self) -> Place:
        folder = self._folder.parent / "ftp"
        (folder / "out").mkdir(parents=True)
        server = self._opened.enter_context(ftp_server.running(folder))
        self.connections["ftp"] = said(server.connection)
        return folder_place("ftp:///out", "ftp", folder / "out")

    def _ftps(self) -> Place:
        folder = self._folder.parent / "ftps"
        (folder / "out").mkdir(parents=True)
        authority = Authority(self._folder.parent / "authority")
        own = authority.server("127.0.0.1")
        server = self._opened.enter_context(ftp_server.running(folder, encrypted_by=own))
        extra = {"sslmode": "verify-full", "sslrootcert": str(authority.ca)}
        self.connections["ftps"] = said(server.connection, extra=extra)
        return folder_place("ftp:///out", "ftps", folder / "out")


def said(connection: Connection, **changed: Any) -> str:
    """As an environment variable says it."""
    known = {
        "conn_type": connection.kind,
        "host": connection.host,
        "port": connection.port,
        "login": connection.login,
        "password": connection.password,
        "extra": dict(connection.extra),
    }
    return json.dumps(known | changed)


Reached = Callable[[str], Place]
