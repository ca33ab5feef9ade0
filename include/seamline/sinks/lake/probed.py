"""Where the probe rows of a certificate arrive in a lake: `ProbeDestination` of sync.certify."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.connections import resolve
from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.client import Session, open_session
from seamline.databases.postgres.client import translated as translated_sql
from seamline.databases.postgres.findings import read_findings
from seamline.domain.canonical import FLOAT_KINDS
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused
from seamline.domain.probe import KEY, Probe, StoredUnlike
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.columns import is_text
from seamline.sinks.lake.files import (
    content,
    draft_name,
    make_folder,
    namespace_folder,
    remove_marked,
    translated,
    write_whole,
)
from seamline.sinks.lake.lake import Lake
from seamline.sinks.lake.ownership import ledger_of
from seamline.sinks.lake.postgres_store import create_tables
from seamline.sinks.lake.read_back import location_in
from seamline.sinks.lake.stores import FilePath
from seamline.values.arrow import schema_of
from seamline.values.digest import canonical_texts

# In each folder of a certificate, with the ledger and the stream: by it a repeat knows the folder.
_MARK = ".seamline-certificate"
_MOMENTS = frozenset({Kind.DATETIME, Kind.INSTANT})
_INFINITE = frozenset({"infinity", "-infinity"})
# As a source writes it (`values.special.LAST_PLAIN_MOMENT`); years have as many digits from 100000 on.
_LAST_MOMENT = "294247-01-10 04:00:54.775806"
_NO_PLACE = "a load or a stream that meets it stops by name"
# The rows of a probe's key: a number of 32 bits in every source.
_KEY_COLUMN = Column(KEY, Kind.INTEGER, "integer", nullable=False, length=32)


class LakeProbed:
    """The certificate's own namespace: its tables in the catalogue, its folders in the warehouse, its ledger."""

    def __init__(self, plan: SyncPlan, destination: DestinationPlan, lake: Lake, kind: str) -> None:
        self._destination = destination
        self._namespace = destination.namespace
        self._stream = plan.stream_id(destination.name)
        self._lake = lake
        self._kind = kind

    def version(self) -> str:
        with self._session() as session, translated_sql("read the server's version"):
            row = session.execute("SHOW server_version").fetchone()
        return f"{self._kind} tables, ledger in PostgreSQL {row[0] if row else ''}".rstrip()

    def type_of(self, column: Column) -> str:
        return self._lake.type_of(column)

    def without_place(self, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        """What `refuse_special` of `lake.columns` refuses of them."""
        return {one: _NO_PLACE for one in literals if _has_no_place(column, one.strip("'"))}

    def prepare(self) -> None:
        with self._session() as session, translated_sql("make the namespace of a certificate"):
            create_tables(session, self._lake.catalogue)
            tables = self._lake.catalogue.pointers(session, self._namespace)
            with translated("look into the warehouse"):
                # A draft of the mark is what a certificate that was killed before leaves.
                files = [
                    path for folder in self._folders() for path in content(folder) if path.name != draft_name(_MARK)
                ]
            if found := [*(f"table {name}" for name in tables), *map(str, files)]:
                raise Refused(
                    f"namespace {self._namespace} is in the way in destination {self._destination.name}: {min(found)}"
                    " was not made by `seamline certify`",
                    hint="move it away",
                )
            mark = self._mark(session)
            with translated("write into the warehouse"):
                for folder in self._folders():
                    make_folder(folder)
                    write_whole(folder / _MARK, mark)

    def unlike(self, probe: Probe) -> Sequence[StoredUnlike]:
        """Every value that is stored unlike the one that came with the snapshot: -0 is not 0."""
        table = Table(probe.name, (_KEY_COLUMN, *probe.columns), (KEY,))
        with self._session() as session, translated_sql("read the catalogue", table=probe.of.name):
            location = location_in(self._lake.catalogue.pointers(session, self._namespace), table)
        rows = pa.Table.from_batches(self._lake.live(table, location)(), schema=schema_of(table))
        return list(unlike_in(probe, rows))

    def findings(self) -> Sequence[Finding]:
        with self._session() as session:
            return read_findings(session, self._stream, after=FindingsReported())[0]

    def remove(self) -> None:
        """Tables and ledger, then the folders: a certificate that was killed in between is known by these. A repeat
        changes nothing."""
        with self._session() as session, translated_sql("remove what a certificate has made"):
            if self._is_published(session):
                with session.transaction():
                    self._lake.catalogue.drop_namespace(session, self._namespace)
                    lake_state.forget(session, self._stream)
                    ledger_tables.forget(session, self._stream)
                    session.execute("DELETE FROM seamline.finding WHERE stream = %s", (str(self._stream),))
            mark = self._mark(session)
        with translated("remove the files of a certificate"):
            for folder in self._folders():
                if _mark_in(folder) == mark and not remove_marked(folder, _MARK):
                    raise OSError(f"something stays in {folder}")

    def _is_published(self, session: Session) -> bool:
        """Tables come into the catalogue with their ledger, by one transaction: without it they are somebody else's."""
        if session.execute("SELECT to_regclass('seamline.lake_state')").fetchone() == (None,):
            return False
        return ledger_tables.read_ledger(session, self._stream) is not None

    def _folders(self) -> Sequence[FilePath]:
        """Of its tables, and of what is loaded into them where that lies elsewhere."""
        names = dict.fromkeys((self._namespace, self._lake.loads_in))
        return [namespace_folder(self._lake.warehouse, name) for name in names]

    def _mark(self, session: Session) -> str:
        """Another database's certificate of a sync of that name may lie in the same warehouse."""
        return f"made by seamline for {self._stream}, {ledger_of(session)}"

    def _session(self) -> "closing[Session]":
        return closing(open_session(resolve(self._destination.connection), application_name="seamline certificate"))


def unlike_in(probe: Probe, rows: pa.Table) -> Iterator[StoredUnlike]:
    """Of the stored rows of a probe in the typed form, with their keys: where the log's are unlike the snapshot's.

    A row that is missing, or there more than once, is unlike in every column; so is every row where one is there that
    nobody has sent.
    """
    wanted = pa.array(probe.keys, pa.int64())
    by_snapshot = pa.array([(key - 1) % probe.rows + 1 for key in probe.keys], pa.int64())
    keys = rows.column(KEY).cast(pa.int64())
    at, snapshot_at = pc.index_in(wanted, keys), pc.index_in(by_snapshot, keys)
    counts = Counter(keys.to_pylist())
    has_strange = not counts.keys() <= set(probe.keys)
    is_wrong = pa.array([has_strange or counts[key] != 1 for key in probe.keys], pa.bool_())
    is_wrong = pc.or_(is_wrong, pc.is_null(snapshot_at))
    for column in probe.columns:
        values = rows.column(column.name).combine_chunks()
        stored, before = values.take(at), values.take(snapshot_at)
        is_unlike = pc.or_(is_wrong, pc.invert(_are_alike(column, stored, before)))
        texts = [canonical_texts(column, one).filter(is_unlike).to_pylist() for one in (before, stored)]
        for key, by_path, found in zip(wanted.filter(is_unlike).to_pylist(), *texts, strict=True):
            several = f"{counts[key]} rows, one of them {'NULL' if found is None else found}"
            yield StoredUnlike(column.name, key, by_path, several if counts[key] > 1 else found)


def _are_alike(column: Column, one: pa.Array, other: pa.Array) -> pa.Array:
    """By all bits; NULL is NULL. Of all but floats a canonical text says the whole value of a column."""
    if column.kind in FLOAT_KINDS:
        bits = pa.int32() if column.kind is Kind.FLOAT else pa.int64()
        left, right = one.view(bits), other.view(bits)
    else:
        left, right = canonical_texts(column, one), canonical_texts(column, other)
    are_equal = pc.fill_null(pc.equal(left, right), False)  # noqa: FBT003 (an Arrow value)
    return pc.or_(are_equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def _has_no_place(column: Column, text: str) -> bool:
    if column.kind is Kind.DECIMAL:
        return text == "NaN" and not is_text(column)
    if column.kind is Kind.DATE or column.kind in _MOMENTS:
        return text in _INFINITE or _is_behind(column, text)
    return False


def _is_behind(column: Column, text: str) -> bool:
    """Of a moment that microseconds of 64 bits do not hold."""
    has_its_digits = text.find("-") == _LAST_MOMENT.find("-")
    return column.kind in _MOMENTS and has_its_digits and text.removesuffix("+00") > _LAST_MOMENT


def _mark_in(folder: FilePath) -> str:
    """ "" where there is none."""
    path = folder / _MARK
    return path.read_text(encoding="utf-8") if path.exists() else ""
