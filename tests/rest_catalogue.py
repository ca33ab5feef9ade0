"""A REST catalogue of Iceberg tables in the tests' own process, by the specification's OpenAPI text: it writes the
metadata files, holds requirements against what it has, and takes the tables of one call all or not at all.

What it says of the calls holds for the specification. It says nothing of what servers that people run make of them.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from tests.memory_sink import LostAnswer

Place = tuple[str, str]
# Of namespaces and tables one page has so many.
_PAGE = 2
_PREFIX = "warehouse"
_TOKEN = "a token"


class Refusal(Exception):
    """An answer that is an error of the specification."""

    def __init__(self, code: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.code, self.kind, self.message = code, kind, message


class AnswerLost(Exception):
    """The connection ends without an answer."""


@dataclass(frozen=True, slots=True)
class Table:
    location: str
    metadata: TableMetadata


@dataclass(slots=True)
class Catalogue:
    """`client`: the id and the secret of the one that is let in; None lets all in. `listed`: the calls that the
    configuration lists. `lose`: of the next commit that moves progress, what becomes of it. `refuse`: the code of the
    next commit's answer. `twice`: the next commit that moves progress is sent twice by who stands between, and the
    client gets the second answer. `answers`: by the end of a call's path, what is answered in its place, one after
    another: a code and headers. `lacks_commit`: whether it has no call for several tables; an answer that is not one of
    a catalogue says so. `closed`: tables that no client may load. `seen`: when calls came, seconds, and by which path.
    `before_commit`: called once, before the next commit is looked at. `one_by_one`: as
    the reference adapter, which takes the tables of a call in their order, up to the first that does not fit."""

    tables: dict[Place, Table] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    client: tuple[str, str] | None = None
    listed: Sequence[str] = ()
    lose: LostAnswer | None = None
    refuse: int = 0
    twice: bool = False
    answers: dict[str, list[tuple[int, Mapping[str, str]]]] = field(default_factory=dict)
    lacks_commit: bool = False
    closed: set[Place] = field(default_factory=set)
    seen: list[tuple[float, str, str]] = field(default_factory=list)
    one_by_one: bool = False
    commits: list[list[str]] = field(default_factory=list)
    before_commit: Callable[[], None] | None = None
    lock: Any = field(default_factory=threading.RLock)

    def make_namespace(self, name: str) -> None:
        if name in self.namespaces:
            raise Refusal(409, "AlreadyExistsException", f"Namespace already exists: {name}")
        self.namespaces.add(name)

    def create(self, namespace: str, request: CreateTableRequest) -> Table:
        place = (namespace, request.name)
        self.require_namespace(namespace)
        if place in self.tables:
            raise Refusal(409, "AlreadyExistsException", f"Table already exists: {place}")
        assert request.location is not None, "the tests' tables say where they lie"
        metadata = new_table_metadata(
            request.table_schema,
            request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            request.write_order or UNSORTED_SORT_ORDER,
            request.location,
            dict(request.properties),
        )
        self.tables[place] = made = _written(metadata, 0)
        return made

    def load(self, place: Place) -> Table:
        if place in self.closed:
            raise Refusal(403, "ForbiddenException", f"no rights of {place}")
        if place not in self.tables:
            raise Refusal(404, "NoSuchTableException", f"Table does not exist: {place}")
        return self.tables[place]

    def rename(self, old: Place, new: Place) -> None:
        self.require_namespace(new[0])
        table = self.load(old)
        if new in self.tables:
            raise Refusal(409, "AlreadyExistsException", f"Table already exists: {new}")
        self.tables[new] = table
        del self.tables[old]

    def drop_namespace(self, namespace: str) -> None:
        self.require_namespace(namespace)
        if any(place[0] == namespace for place in self.tables):
            raise Refusal(409, "NamespaceNotEmptyException", f"Namespace {namespace} is not empty")
        self.namespaces.remove(namespace)

    def commit(self, changes: Sequence[CommitTableRequest]) -> None:
        if self.refuse:
            code, self.refuse = self.refuse, 0
            raise Refusal(code, "Refused", "as the test asks for")
        after: dict[Place, Table] = {}
        for change in changes:
            place = (".".join(change.identifier.namespace.root), change.identifier.name)
            assert place not in after, "the specification takes each table once"
            after[place] = self._changed(place, change)
            if self.one_by_one:
                self.tables[place] = after[place]
        is_progress = any(_progress(self.tables[place]) != _progress(table) for place, table in after.items())
        lost = None
        if is_progress:
            lost, self.lose = self.lose, None
        if lost is not LostAnswer.NOT_APPLIED:
            self.tables.update(after)
            self.commits.append([place[1] for place in after])
        if lost is not None:
            raise AnswerLost
        if is_progress and self.twice:
            self.twice = False
            self.commit(changes)

    def _changed(self, place: Place, change: CommitTableRequest) -> Table:
        before = self.load(place)
        assert change.requirements, "each table of a call is compared"
        try:
            for requirement in change.requirements:
                requirement.validate(before.metadata)
        except CommitFailedException as exc:
            raise Refusal(409, "CommitFailedException", str(exc)) from exc
        metadata = update_table_metadata(before.metadata, change.updates, metadata_location=before.location)
        return _written(metadata, int(Path(before.location).name.partition("-")[0]) + 1)

    def require_namespace(self, namespace: str) -> None:
        if namespace not in self.namespaces:
            raise Refusal(404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace}")


def _written(metadata: TableMetadata, version: int) -> Table:
    folder = Path(metadata.location.removeprefix("file://")) / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{version:05d}-{uuid4()}.metadata.json"
    path.write_text(metadata.model_dump_json(), encoding="utf-8")
    # As it is read again: what a client reads is what was written.
    return Table(f"file://{path}", metadata)


def _progress(table: Table) -> object:
    """What a ledger says of progress; None of another table, and of one that only gets another epoch the same."""
    snapshot = table.metadata.current_snapshot()
    said = snapshot.summary.additional_properties.get("seamline.state", "") if snapshot and snapshot.summary else ""
    state = json.loads(said or "{}")
    return state.get("next_offset"), state.get("runs")


def _identifiers(places: Sequence[Place], query: Mapping[str, list[str]]) -> dict[str, Any]:
    """One page: it begins behind the name that the token is."""
    token = query.get("pageToken", [""])[0]
    left = [place for place in sorted(places) if place[1] > token]
    page = {"identifiers": [{"namespace": [namespace], "name": name} for namespace, name in left[:_PAGE]]}
    return page | ({"next-page-token": left[_PAGE - 1][1]} if len(left) > _PAGE else {})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of an answer go together: the client's side would else wait 40 ms for the second part.
    wbufsize = -1
    catalogue: ClassVar[Catalogue]

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing: tests read what fails, not what is asked."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        hook = self.catalogue.before_commit
        if hook is not None and parts.path.endswith("/transactions/commit"):
            self.catalogue.before_commit = None
            hook()
        self.catalogue.seen.append((time.monotonic(), parts.path, body.decode()))
        if self._answered_otherwise(parts.path):
            return
        try:
            with self.catalogue.lock:
                code, found = self._found(path, parse_qs(parts.query), body)
        except Refusal as exc:
            error = {"message": exc.message, "type": exc.kind, "code": exc.code}
            code, found = exc.code, {"error": error}
        except AnswerLost:
            self.close_connection = True
            return
        text = b"" if found is None else json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text if self.command != "HEAD" else b"")

    def _answered_otherwise(self, path: str) -> bool:
        planned = next((left for end, left in self.catalogue.answers.items() if path.endswith(end) and left), None)
        if planned is None and not (self.catalogue.lacks_commit and path.endswith("/transactions/commit")):
            return False
        code, headers = planned.pop(0) if planned else (404, {})
        text = b"<html>not found</html>"
        self.send_response(code)
        for name, value in {**headers, "Content-Type": "text/html", "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)
        return True

    def _found(self, path: list[str], query: Mapping[str, list[str]], body: bytes) -> tuple[int, Any]:
        match path:
            case ["v1", "oauth", "tokens"]:
                said = parse_qs(body.decode())
                if self.catalogue.client not in (None, (said["client_id"][0], said["client_secret"][0])):
                    raise Refusal(401, "invalid_client", "another secret was expected")
                return 200, {"access_token": _TOKEN, "token_type": "bearer", "expires_in": 3600}
            case _ if self.catalogue.client and self.headers.get("Authorization") != f"Bearer {_TOKEN}":
                raise Refusal(401, "NotAuthorizedException", "no token")
            case ["v1", "config"]:
                return 200, {
                    "defaults": {},
                    "overrides": {"prefix": _PREFIX},
                    **({"endpoints": list(self.catalogue.listed)} if self.catalogue.listed else {}),
                }
            case ["v1", _, "namespaces", *rest]:
                return self._of_namespaces(rest, query, body)
            case ["v1", _, "tables", "rename"]:
                said = json.loads(body)
                old, new = ((*said[side]["namespace"], said[side]["name"]) for side in ("source", "destination"))
                self.catalogue.rename(old, new)
                return 204, None
            case ["v1", _, "transactions", "commit"]:
                changes = json.loads(body)["table-changes"]
                self.catalogue.commit([CommitTableRequest.model_validate(change) for change in changes])
                return 204, None
        raise self._no_call()

    def _of_namespaces(self, path: list[str], query: Mapping[str, list[str]], body: bytes) -> tuple[int, Any]:
        known = self.catalogue
        match self.command, path:
            case "GET", []:
                inside = "parent" in query
                return 200, {"namespaces": [] if inside else [[name] for name in sorted(known.namespaces)]}
            case "POST", []:
                (name,) = json.loads(body)["namespace"]
                known.make_namespace(name)
                return 200, {"namespace": [name], "properties": {}}
            case "DELETE", [name]:
                known.drop_namespace(name)
                return 204, None
            case _, [name]:
                known.require_namespace(name)
                return 200, {"namespace": [name], "properties": {}}
            case _, [name, "tables", *rest]:
                return self._of_tables(name, rest, query, body)
        raise self._no_call()

    def _of_tables(
        self, namespace: str, path: list[str], query: Mapping[str, list[str]], body: bytes
    ) -> tuple[int, Any]:
        known = self.catalogue
        match self.command, path:
            case "GET", []:
                known.require_namespace(namespace)
                return 200, _identifiers([place for place in known.tables if place[0] == namespace], query)
            case "POST", []:
                return 200, _loaded(known.create(namespace, CreateTableRequest.model_validate_json(body)))
            case "GET", [name]:
                return 200, _loaded(known.load((namespace, name)))
            case "DELETE", [name]:
                known.load((namespace, name))
                del known.tables[namespace, name]
                return 204, None
        raise self._no_call()

    def _no_call(self) -> Refusal:
        return Refusal(404, "NotFoundException", f"{self.command} {self.path} is no call of the specification")


def _loaded(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.location, "metadata": metadata, "config": {}}


@contextmanager
def serving(catalogue: Catalogue, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Where it answers, encrypted by `tls`."""
    handler = type("_Handler", (_Handler,), {"catalogue": catalogue})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
