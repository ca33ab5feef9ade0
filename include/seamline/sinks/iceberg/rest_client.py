"""The calls of a REST catalogue that are made here: pyiceberg's client, and the one call for several tables, which it
has not."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, TableUpdate

from seamline.adapters.tls import has_tls_refusal
from seamline.domain.errors import CommitUnknown, ConfigError, Refused, SeamlineError, TransientError
from seamline.sinks.iceberg.rest_session import guarded
from seamline.sinks.lake.files import url_of
from seamline.sinks.lake.stores import FilePath

_TRANSACTION = "transactions/commit"
# What a server without that call answers; the first also where a table of it is gone.
_NO_CALL = (404, 405, 501)
# Types of its errors.
_GONE = ("NoSuchTable", "NoSuchNamespace")
# As the list of a server's configuration names them.
NEEDED_CALLS = (
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/tables/rename",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
)
_TLS_CURE = (
    "check sslrootcert, sslcert and sslkey of the catalogue's connection: the CA that signed the server's certificate,"
    " the host name in it, and the client certificate if the server asks for one (docs/reference/connections.md)"
)
# By this property an empty table is known to be one that a publish has made and not yet filled.
MADE_BY = "seamline.made-by"

Place = tuple[str, str]
"""Namespace and name of a table."""


class Conflicted(Exception):
    """A requirement of a commit does not hold, or a table of it is gone. Nothing was changed. Never leaves a store."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table as the server has it. `location`: of the metadata file that it wrote."""

    place: Place
    location: str
    metadata: TableMetadata

    @property
    def is_empty(self) -> bool:
        """Whether a publish has made it and not filled it."""
        return self.metadata.current_snapshot_id is None and MADE_BY in self.metadata.properties

    def changed(self, updates: Sequence[TableUpdate]) -> CommitTableRequest:
        """The updates, if the table still stands where it was loaded."""
        namespace, name = self.place
        return CommitTableRequest(
            identifier=TableIdentifier(namespace=[namespace], name=name),
            requirements=(
                AssertTableUUID(uuid=self.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=self.metadata.current_snapshot_id),
            ),
            updates=tuple(updates),
        )

    def tagged(self, updates: Sequence[TableUpdate]) -> CommitTableRequest:
        """The updates, wherever the table stands by then: those of tags change none of its rows."""
        changed = self.changed(updates)
        return changed.model_copy(update={"requirements": changed.requirements[:1]})


class _Catalog(RestCatalog):
    def _create_legacy_oauth2_auth_manager(self, session: requests.Session) -> AuthManager:
        # Before a token is asked for: that call carries the client's secret.
        return super()._create_legacy_oauth2_auth_manager(guarded(session))

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        # Files are reached by the connection of the warehouse: a server need not make credentials for them.
        session.headers.pop("X-Iceberg-Access-Delegation", None)
        return session

    def listed_endpoints(self) -> list[str]:
        """As the server lists them; pyiceberg puts those of old servers in the place of a missing list."""
        where = {"warehouse": self.properties["warehouse"]} if "warehouse" in self.properties else {}
        answer = self._session.get(self.url("config", prefixed=False), params=where)
        answer.raise_for_status()
        return list(answer.json().get("endpoints") or [])

    def send_transaction(self, changes: Sequence[CommitTableRequest]) -> requests.Response:
        body = {"table-changes": [json.loads(change.model_dump_json()) for change in changes]}
        return self._session.post(self.url(_TRANSACTION), data=json.dumps(body).encode())


class RestClient:
    """A session with one catalogue, opened by its first call. `properties` are those of pyiceberg's client; they may
    hold secrets."""

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        self._name = name
        self._properties = dict(properties)
        self._opened: _Catalog | None = None

    def load(self, place: Place) -> Loaded | None:
        """None where no such table is."""
        with translated(f"load table {place[1]}"):
            try:
                found = self._catalog.load_table(place)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            return Loaded(place, found.metadata_location, found.metadata)

    def missing_calls(self) -> list[str]:
        """Calls that a sync needs and the server does not list. One that lists nothing is asked for the call that not
        every server has, by a commit of no table."""
        with translated("read its configuration"):
            if listed := self._catalog.listed_endpoints():
                return [call for call in NEEDED_CALLS if call not in listed]
            answer = self._catalog.send_transaction([])
        return [NEEDED_CALLS[0]] if answer.status_code in _NO_CALL else []

    def namespaces(self) -> list[tuple[str, ...]]:
        """All of them, those inside of others too."""
        found, left = list[tuple[str, ...]](), [()]
        with translated("list namespaces"):
            while left:
                with suppress(NoSuchNamespaceError):
                    inside = self._catalog.list_namespaces(left.pop())
                    found += inside
                    left += inside
        return found

    def locations(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Table → metadata file, of every table there; one that leaves meanwhile is left out. Refused: this login may
        not read one of them."""
        with translated(f"list tables of {'.'.join(namespace)}"):
            try:
                places = self._catalog.list_tables(namespace)
            except NoSuchNamespaceError:
                return {}
        found = dict[str, str]()
        for place in places:
            with translated(f"show table {'.'.join(place)}"), suppress(NoSuchTableError, NoSuchNamespaceError):
                found[place[-1]] = self._catalog.load_table(place).metadata_location
        return found

    def names(self, namespace: str) -> list[str]:
        """Of its tables, in order; none where it is missing."""
        with translated(f"list tables of {namespace}"):
            try:
                return sorted(place[-1] for place in self._catalog.list_tables((namespace,)))
            except NoSuchNamespaceError:
                return []

    def make_namespace(self, namespace: str) -> None:
        """A repeat changes nothing."""
        with translated(f"make namespace {namespace}"):
            try:
                self._catalog.create_namespace((namespace,))
            except NamespaceAlreadyExistsError:
                return

    def drop_namespace(self, namespace: str) -> None:
        """One that is missing, or in which something lies, is left alone."""
        with translated(f"drop namespace {namespace}"):
            try:
                self._catalog.drop_namespace((namespace,))
            except (NoSuchNamespaceError, NamespaceNotEmptyError):
                return

    def make(self, place: Place, like: TableMetadata, location: FilePath, *, made_by: str) -> Loaded:
        """A table without rows, laid out as another; an empty one that an earlier attempt has made leaves.

        Conflicted: a table of that name holds something. Refused: the server has laid it out otherwise.
        """
        with translated(f"make table {place[1]}"):
            found = self.load(place)
            if found is not None and found.is_empty and found.metadata.properties[MADE_BY] == made_by:
                self._catalog.drop_table(place)
            properties = {**like.properties, "format-version": str(like.format_version), MADE_BY: made_by}
            try:
                self._catalog.create_table(
                    place, like.schema(), url_of(location), like.spec(), like.sort_order(), properties
                )
            except TableAlreadyExistsError as exc:
                raise Conflicted(place[1]) from exc
        made = self.load(place)
        if made is None:
            raise Conflicted(place[1])
        differing = [
            what
            for what, wanted, there in (
                ("columns", like.schema().fields, made.metadata.schema().fields),
                ("partitions", like.spec().fields, made.metadata.spec().fields),
                ("location", url_of(location), made.metadata.location),
                ("format", like.format_version, made.metadata.format_version),
            )
            if wanted != there
        ]
        if differing:
            raise Refused(
                f"the catalogue has made table {place[1]} with other {', '.join(differing)} than it was asked for",
                hint="let it take the declared warehouse as a location of tables, and format and numbers of columns as"
                " they are sent",
                table=place[1],
            )
        return made

    def rename(self, old: Place, new: Place) -> None:
        with translated(f"rename table {old[1]}"):
            try:
                self._catalog.rename_table(old, new)
            except NoSuchTableError:
                return
            except TableAlreadyExistsError as exc:
                raise Refused(
                    f"table {old[1]} leaves its name for {new[1]}, and there is a table of that name already",
                    hint=f"rename {new[0]}.{new[1]} in the catalogue: it is tried again",
                    table=old[1],
                ) from exc

    def drop(self, place: Place) -> None:
        """Its files stay. A repeat changes nothing."""
        with translated(f"drop table {place[1]}"):
            try:
                self._catalog.drop_table(place)
            except NoSuchTableError:
                return

    def commit(self, changes: Sequence[CommitTableRequest]) -> None:
        """All of them or none, by one call.

        Conflicted: none. CommitUnknown: no answer came, or one that does not say. Refused, TransientError: none.
        """
        with translated("open the catalogue"):
            catalog = self._catalog
        try:
            answer = catalog.send_transaction(changes)
        except requests.RequestException as exc:
            raise CommitUnknown(f"a commit was sent to catalogue {self._name}, its answer is lost: {exc}") from exc
        if answer.ok:
            return
        said = f"catalogue {self._name} answered a commit with {answer.status_code}: {answer.text[:500]}"
        if answer.status_code in _NO_CALL and not self._is_of_a_table(answer, changes):
            raise Refused(
                f"catalogue {self._name} has no call POST {_TRANSACTION}: it answered {answer.status_code}, and every"
                " table of the commit is there",
                hint="all tables of a sync and its ledger move by that call: take a catalogue that has it, or"
                " `catalog_type: jdbc`. A proxy before the server may withhold it",
            )
        if answer.status_code in (404, 409):
            if self._is_committed(changes[0]):
                return
            raise Conflicted(said)
        # 408: a proxy's, which may have passed the call on.
        if answer.status_code == 408 or answer.status_code >= 500:
            raise CommitUnknown(said)
        if answer.status_code in (401, 419, 429):
            self.close()
            raise TransientError(said, hint="it is tried again with a new session")
        raise Refused(said, hint=f"the catalogue must take POST {_TRANSACTION} from this login")

    def _is_of_a_table(self, answer: requests.Response, changes: Sequence[CommitTableRequest]) -> bool:
        """Whether a table of the commit is gone, and not the call itself. CommitUnknown where that is not known."""
        try:
            if answer.status_code == 404 and str(answer.json()["error"]["type"]).startswith(_GONE):
                return True
        except (ValueError, KeyError, TypeError):
            # No error of a catalogue: whoever answered knows nothing of tables.
            pass
        try:
            return any(self.load(_place_of(one)) is None for one in changes)
        except SeamlineError as exc:
            raise CommitUnknown(f"whether a commit was refused for a table is not known: {exc.message}") from exc

    def _is_committed(self, first: CommitTableRequest) -> bool:
        """Who stands between may send a call twice, and the second is refused because the first was taken: then the
        snapshots that it adds are there. CommitUnknown where that is not known."""
        added = {one.snapshot.snapshot_id for one in first.updates if isinstance(one, AddSnapshotUpdate)}
        try:
            table = self.load(_place_of(first))
        except SeamlineError as exc:
            raise CommitUnknown(f"whether a refused commit was taken before is not known: {exc.message}") from exc
        known = {one.snapshot_id for one in table.metadata.snapshots} if table is not None else set()
        return bool(added) and added <= known

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _catalog(self) -> _Catalog:
        if self._opened is None:
            self._opened = _Catalog(self._name, **self._properties)
        return self._opened


def _place_of(change: CommitTableRequest) -> Place:
    return ".".join(change.identifier.namespace.root), change.identifier.name


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the client leave as Seamline's."""
    try:
        yield
    except (UnauthorizedError, ForbiddenError, BadRequestError, OAuthError) as exc:
        raise Refused(f"the catalogue refused to {doing}: {exc}", hint="look at its rights for this login") from exc
    except NotImplementedError as exc:
        raise Refused(f"the catalogue does not {doing}: {exc}", hint="its server must list that call") from exc
    # ValueError: what has answered is no catalogue, as a proxy with a page of its own.
    except (requests.RequestException, RESTError, ValueError) as exc:
        if isinstance(exc, requests.RequestException) and has_tls_refusal(exc):
            raise ConfigError(f"the catalogue did not {doing}: {exc}", hint=_TLS_CURE) from exc
        raise TransientError(f"the catalogue did not {doing}: {exc}", hint="it is tried again") from exc
