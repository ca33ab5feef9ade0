"""A delivery as it is read for a night: fetched, checked, and then given to whoever copies and compares."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from seamline.domain.catalogue import Table, alterations
from seamline.domain.errors import GateFailed, InvariantViolated, Refused, SchemaConflict
from seamline.files.stores.opening import open_store
from seamline.files.stores.store import Store
from seamline.kinds.arrow_view import ArrowView, Batches
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.sources.files.checked import CheckedTable, checked
from seamline.sources.files.delivery import Delivery, NotThere, find
from seamline.sources.files.fetched import FetchedFile, fetch, require_same
from seamline.sources.files.layout import Layout, layout_of
from seamline.sources.files.position import FilesPosition
from seamline.sources.files.rows import Form, Wrong, rows_of
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment

_FOLDER = "seamline-files-"


@dataclass(frozen=True, slots=True)
class HeldDelivery:
    """A delivery whose files lie here, and are as they were promised."""

    position: FilesPosition
    tables: Mapping[str, CheckedTable]


@contextmanager
def held(source: SourcePlan, business_date: date, tables: Sequence[Table]) -> Iterator[HeldDelivery]:
    """The delivery of a date, fetched into a temporary folder.

    Refused: it is not there yet. SchemaConflict: it has other columns than were planned. GateFailed: it is not what it
    promises.
    """
    layout = layout_of(source)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        with closing(open_store(layout.location, layout.connection)) as store:
            delivery = _found(store, layout, business_date, tables)
            paths = [delivery.path(file) for table in tables for file in delivery.tables[table.name].files]
            fetched = fetch(store, dict.fromkeys(paths), Path(folder))
        found = checked(layout, delivery, tables, fetched)
        yield HeldDelivery(_position(delivery, found), found)


@contextmanager
def open_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    if wanted.business_date is None:
        raise Refused("files are read by business date", hint="trigger the nightly run of a date")
    with held(source, wanted.business_date, wanted.tables) as delivery:
        proof = str(delivery.position)
        tasks.start(_barrier(proof, delivery.tables))
        view = view_of(delivery)
        yield OpenedSource([view] * wanted.views, delivery.position, datetime.now(UTC), proof)


def view_of(delivery: HeldDelivery) -> ArrowView:
    return ArrowView(delivery.position, {one.table: _batches(one) for one in delivery.tables.values()})


class FilesReaders:
    """`kinds.bulk.TableReaders`: each task fetches its files itself, and takes none that was not checked."""

    def __init__(self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str) -> None:
        self._layout = layout_of(source)
        self._reads = reads
        self._expected = json.loads(barrier)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open_at_barrier(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=_FOLDER)

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        if self._folder is None:
            raise InvariantViolated("the readers have not met yet")
        read = self._reads[number]
        files = self._fetched(read.table, Path(self._folder.name) / str(number))
        proven(self._expected["proof"])
        form = Form(self._layout.format, self._layout.dialect, self._layout.of(read.table.name))
        return ArrowRows(schema_of(read.table), _in_segment(read, _typed(read.table, files, form)))

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _fetched(self, table: Table, into: Path) -> Sequence[FetchedFile]:
        into.mkdir()
        expected = self._expected["tables"][table.name]
        with closing(open_store(self._layout.location, self._layout.connection)) as store:
            found = fetch(store, [path for path, _ in expected], into)
        return [require_same(found.get(path), path=path, sha256=sha256) for path, sha256 in expected]


def _found(store: Store, layout: Layout, business_date: date, tables: Sequence[Table]) -> Delivery:
    found = find(store, layout, business_date, [table.name for table in tables])
    if isinstance(found, NotThere):
        raise Refused(
            f"no delivery of {business_date} is there: {found.seen}",
            hint="run the date again once its flag is there",
        )
    described = {name: one.definition for name, one in found.tables.items()}
    now = [(table, described[table.name]) for table in tables if not layout.of(table.name).definition]
    altered = [text for table, one in now if one is not None for text in alterations(table, one)]
    if altered:
        raise SchemaConflict(
            f"{found} has other columns than were planned: {'; '.join(altered)}",
            hint="run the onboarding again, so that the plan knows them; nothing was loaded",
        )
    return found


def _position(delivery: Delivery, tables: Mapping[str, CheckedTable]) -> FilesPosition:
    checksum = delivery.checksum
    if not checksum:
        files = sorted((file.path, file.sha256) for table in tables.values() for file in table.files)
        checksum = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    return FilesPosition(delivery.business_date.isoformat(), delivery.version, checksum)


def _barrier(proof: str, tables: Mapping[str, CheckedTable]) -> str:
    """What tasks need to read the very files that were checked."""
    files = {name: [(file.path, file.sha256) for file in one.files] for name, one in tables.items()}
    return json.dumps({"proof": proof, "tables": files})


def _batches(one: CheckedTable) -> Batches:
    return lambda: _typed(one.table, one.files, one.form)


def _typed(table: Table, files: Sequence[FetchedFile], form: Form) -> Iterator[pa.RecordBatch]:
    for file in files:
        try:
            yield from rows_of(file.here, table, form)
        except Wrong as exc:
            raise GateFailed(f"{file.path} {exc}", hint="nothing was published", table=table.name) from exc


def _in_segment(read: BulkRead, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (in_segment(read.segment, read.table, rows, run_key="") for rows in batches)
