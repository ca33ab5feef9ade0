"""A REST catalogue of one commit: what Spark takes for Iceberg's catalogue while it stages tables.

It listens on the loopback of the driver, on a port and under a token of its own, and speaks Iceberg's REST protocol as
far as Spark's `SparkCatalog` asks: its configuration, load a table, commit a table. It serves a table as the pointer of
the real catalogue has it, or as an earlier statement of the same commit has left it. What Spark commits here is staged:
a metadata file is written, and no pointer moves.
"""

import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO
from seamline.sinks.iceberg.manifests import metadata_json, read_metadata
from seamline.sinks.iceberg.snapshot import version_of
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.stores import FilePath

SPARK_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
NAMESPACE: Final = "staged"
_LOOPBACK: Final = "127.0.0.1"
_OF_FOLDERS: Final = MappingProxyType({"io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"})
_REQUIREMENTS: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])
_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])
_Answer = tuple[HTTPStatus, str]


class SpanTable:
    """One table of a commit. `pointer`: the metadata file from which the commit goes on; `location`: the one that says
    what the table is now; `added`: the snapshots between them, oldest first. `client`: by what Spark reaches its files;
    it may hold secrets."""

    def __init__(
        self, pointer: str, mark: str, io: WarehouseIO = LOCAL_IO, client: Mapping[str, str] = _OF_FOLDERS
    ) -> None:
        self.io, self.client = io, client
        self.before = self.now = read_metadata(pointer, io)
        self.pointer = self.location = pointer
        # A statement asks for it several times, and with its snapshots it may be large.
        self.text = metadata_json(self.now)
        self.files = NewFiles(io.path_of(self.before.location), mark)
        self._updates: tuple[TableUpdate, ...] = ()
        self._written: list[FilePath] = []

    @property
    def added(self) -> list[Snapshot]:
        known = {snapshot.snapshot_id for snapshot in self.before.snapshots}
        return [snapshot for snapshot in self.now.snapshots if snapshot.snapshot_id not in known]

    def commit(self, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> None:
        """CommitFailedException: the statement began from another state of the table."""
        for requirement in requirements:
            requirement.validate(self.now)
        # All of them on top of the pointer's file: the log of metadata files names none that is staged only.
        updates = (*self._updates, *updates)
        after = update_table_metadata(self.before, updates, metadata_location=self.pointer)
        known = {entry.snapshot_id for entry in self.before.snapshot_log}
        # A reader who asks for a moment meets no half of a commit.
        log = [one for one in after.snapshot_log if one.snapshot_id in {*known, after.current_snapshot_id}]
        after = after.model_copy(update={"snapshot_log": log})
        path = self.files.versioned(version_of(self.pointer) + len(self._written) + 1)
        self.text = metadata_json(after)
        path.write_text(self.text, encoding="utf-8")
        self.location, self.now, self._updates = url_of(path), after, updates
        self._written.append(path)

    def keep_last(self) -> None:
        """Delete the metadata files of states between."""
        self.files.drop(self._written[:-1])
        del self._written[:-1]


class SpanCatalogue:
    """Served until it is closed, to a session that knows it as `name`: no session has two of one name."""

    def __init__(self) -> None:
        self.name = f"seamline_{secrets.token_hex(4)}"
        self._tables: dict[str, SpanTable] = {}
        self._token = secrets.token_urlsafe(32)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((_LOOPBACK, 0), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="span catalogue", daemon=True).start()

    def settings(self) -> dict[str, str]:
        """What a session of Spark is given, so that it finds this catalogue by its name."""
        prefix = f"spark.sql.catalog.{self.name}"
        url = f"http://{_LOOPBACK}:{self._server.server_port}"
        options = {
            "type": "rest",
            "uri": url,
            "rest.auth.type": "oauth2",
            "token": self._token,
            "token-refresh-enabled": "false",
            "oauth2-server-uri": url,
            # Each statement must see what the one before it has staged.
            "cache-enabled": "false",
            "rest-metrics-reporting-enabled": "false",
        }
        named = {f"{prefix}.{name}": value for name, value in options.items()}
        return {prefix: SPARK_CATALOG, **named}

    def serve(self, name: str, table: SpanTable) -> None:
        with self._lock:
            self._tables[name] = table

    def forget(self, name: str) -> None:
        """From here on a statement that still runs commits nothing."""
        with self._lock:
            self._tables.pop(name, None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def admits(self, authorization: str) -> bool:
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    def answer(self, method: str, path: str, body: bytes) -> _Answer:
        """The status and the JSON of one request."""
        match method, [unquote_plus(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case "GET", ["v1", "config"]:
                return HTTPStatus.OK, '{"defaults": {}, "overrides": {}}'
            case "GET", ["v1", "namespaces", namespace, "tables", table] if namespace == NAMESPACE:
                return self._of_table(table, None)
            case "POST", ["v1", "namespaces", namespace, "tables", table] if namespace == NAMESPACE:
                return self._of_table(table, body)
        return refusal(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"{method} {path} is not served here")

    def _of_table(self, name: str, body: bytes | None) -> _Answer:
        with self._lock:
            table = self._tables.get(name)
            if table is None:
                return refusal(HTTPStatus.NOT_FOUND, "NoSuchTableException", f"{name} is no table of this commit")
            if body is not None:
                try:
                    asked = json.loads(body)
                    table.commit(
                        _REQUIREMENTS.validate_python(asked["requirements"]), _UPDATES.validate_python(asked["updates"])
                    )
                except CommitFailedException as exc:
                    return refusal(HTTPStatus.CONFLICT, "CommitFailedException", str(exc))
                except (KeyError, ValueError) as exc:
                    return refusal(HTTPStatus.BAD_REQUEST, "BadRequestException", str(exc))
            # Settings of one table come with it, so that no setting of the session holds a secret.
            said = f'"metadata-location": {json.dumps(table.location)}, "config": {json.dumps(dict(table.client))}'
            return HTTPStatus.OK, f'{{{said}, "metadata": {table.text}}}'


def refusal(status: HTTPStatus, kind: str, message: str) -> _Answer:
    """As Iceberg's clients read it: `kind` is one of their exceptions."""
    return status, json.dumps({"error": {"message": message, "type": kind, "code": status.value}})


def _handler_of(catalogue: SpanCatalogue) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

        def _answer(self, body: bytes) -> None:
            if catalogue.admits(self.headers.get("Authorization", "")):
                status, text = catalogue.answer(self.command, self.path, body)
            else:
                status, text = refusal(HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", "the token is another")
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
