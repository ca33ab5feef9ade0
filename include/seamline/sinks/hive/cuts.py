"""Cuts in a Hive metastore: the partition of a date, in each table, leads to the folder that was compared.

The metastore moves one table at a time, so what is to be moved is written down first, in one transaction of PostgreSQL:
all tables of the cut with their folders. Then each partition is moved by one call, and when all of them lead where the
rows say, the cut is closed. A crash anywhere leaves a cut that is begun: the next publish of that date, by whichever
run, finishes it before anything else. Each table's partition is moved at once; all tables of a date stand at one
position by the cut's rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.catalogue import Table
from seamline.domain.cut_keep import KeptCut
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import Lateness, Published, StagedCut, StagedTable
from seamline.kinds.cut_rules import KnownCut, require_repeat_of
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.hive import cut_rows, tables, types
from seamline.sinks.hive.cut_rows import Folder, Recorded
from seamline.sinks.hive.metastore import Metastore, open_metastore
from seamline.sinks.hive.options import options_of
from seamline.sinks.hive.types import hive_columns
from seamline.sinks.lake.files import local, make_folder, sync
from seamline.sinks.lake.loads import claim, location_of, require_as_compared, staged_files


@dataclass(frozen=True, slots=True)
class Dropped:
    """What left with a date. Files follow by maintenance."""

    partitions: int
    size_bytes: int


class HiveCuts:
    """`ports.cuts.Cuts` and `ports.cuts.CutStore` of one destination. Not safe to share between threads."""

    def __init__(self, destination: DestinationPlan, session: Session, metastore: Metastore) -> None:
        self._destination = destination
        self._warehouse = options_of(destination).warehouse
        self.session = session
        self._metastore = metastore

    def close(self) -> None:
        self._metastore.close()
        self.session.close()

    # ---- Cuts -------------------------------------------------------------------------------------------------------

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:
        from seamline.sinks.hive.lateness import lateness

        with translated(f"look for the cut of {business_date} of {sync}"):
            try:
                found = cut_rows.current_folder(self.session, self._stream(sync), table, business_date)
            except cut_rows.MISSING:
                return None
        if found is None:
            return None
        return lateness(self.files(staged_as), self.files(found[1].location))

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        with translated(f"look for the cut before {business_date} of {sync}"):
            found = cut_rows.tables_of_date_before(self.session, self._stream(sync), business_date)
        return [
            PublishedTable(table, day, version, self._destination.namespace, location)
            for table, day, version, location in found
        ]

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:
        """Repeat-safe by the run's id: a repeat finishes what was begun. GateFailed, and nothing begun: a staged table
        holds something else than was compared."""
        stream = self._stream(cut.sync)
        with translated(f"publish the cut of {cut.business_date} of {cut.sync}"), self.taking_turns():
            cut_rows.create_tables(self.session)
            known = cut_rows.recorded(self.session, stream, cut.run_id)
            if known is not None:
                return self._repeat_of(known, stream, cut, signed_by)
            for version, _ in cut_rows.begun(self.session, stream, cut.business_date):
                self._finish(stream, cut.business_date, version)
            version = self._decide(stream, cut, definitions, signed_by)
            self._finish(stream, cut.business_date, version)
        return Published(version, is_new=True, signed_by=signed_by)

    def _decide(self, stream: StreamId, cut: StagedCut, definitions: Mapping[str, Table], signed_by: str) -> int:
        folders = {one.table: self._checked(one, definitions) for one in cut.tables}
        for one in cut.tables:
            tables.ready(self._metastore, definitions[one.table], stream, self._warehouse)
        version = cut_rows.next_version(self.session, stream, cut.business_date)
        cut_rows.decide(self.session, stream, cut, version, folders=folders, signed_by=signed_by)
        return version

    def _checked(self, staged: StagedTable, definitions: Mapping[str, Table]) -> Folder:
        """Its files are on the disk, hold what was compared, and are not dropped as abandoned from here on."""
        if staged.table not in definitions:
            raise Refused(f"{staged.table} is derived: Hive has no derived tables", table=staged.table)
        definition = definitions[staged.table]
        load = Load(definition, staged.staged_as, staged.rows, staged.digest)
        found = staged_files(self._warehouse, load)
        require_as_compared(found, load, types)
        # Of a table without rows there are no files: its partition leads to an empty folder.
        make_folder(found.location / "data")
        sync(found.location)
        claim(found.location)
        return Folder(staged.table, staged.staged_as, hive_columns(definition), staged.rows)

    def _finish(self, stream: StreamId, business_date: date, version: int) -> None:
        """Move what the rows of a cut say, and close it. A repeat moves it to the same place."""
        folders = cut_rows.folders_of(self.session, stream, business_date, version)
        for folder in folders:
            self._place(stream, business_date, version, folder)
        for folder in folders:
            found = self._metastore.location(folder.table.lower(), business_date)
            if found != self.path_of(folder.location):
                raise TransientError(
                    f"partition {business_date} of {folder.table} leads to {found}, not to the folder of version"
                    f" {version}: somebody else moves it",
                    hint="it is tried again; nobody but Seamline may move these partitions",
                    table=folder.table,
                )
        cut_rows.finish(self.session, stream, business_date, version)

    def _place(self, stream: StreamId, business_date: date, version: int, folder: Folder) -> None:
        path = self.path_of(folder.location)
        if not path.is_dir():
            raise Refused(
                f"the files of version {version} of {business_date} of {folder.table} are gone: {path}",
                hint="put them back; where they are lost, set `expired_at` of that version in seamline.hive_cut:"
                " the next cut of the date then goes on without it",
                table=folder.table,
            )
        # Whoever has lost this session has lost its turn too.
        self.session.execute("SELECT")
        self._metastore.place(
            folder.table.lower(),
            business_date,
            folder.columns,
            path,
            parameters={
                "seamline.stream": str(stream),
                "seamline.version": str(version),
                "seamline.rows": str(folder.rows),
            },
        )

    def _repeat_of(self, known: Recorded, stream: StreamId, cut: StagedCut, signed_by: str) -> Published:
        require_repeat_of(cut, KnownCut(stream.sync, known.business_date, known.position, known.has_expired))
        if not known.is_published:
            self._finish(stream, known.business_date, known.version)
        # Who has signed last: a later question about this very cut may have been answered by somebody else.
        signer = signed_by or known.signed_by
        if signer != known.signed_by:
            cut_rows.sign(self.session, stream, known.business_date, known.version, signer)
        return Published(known.version, is_new=not known.is_published, signed_by=signer)

    # ---- CutStore ---------------------------------------------------------------------------------------------------

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        with translated(f"read the cuts of {sync}"):
            row = self.session.execute("SELECT clock_timestamp()").fetchone()
            return self._kept(self._stream(sync)), row[0] if row else datetime.now(UTC)

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Let partitions lead to what stays, or drop them; then forget the rows. The folders stay for readers who have
        planned their query, until maintenance removes them. A repeat goes on."""
        stream = self._stream(sync)
        with translated(f"let the cut of {business_date} of {sync} expire"), self.taking_turns():
            there = {(cut.table, cut.version) for cut in self._kept(stream) if cut.business_date == business_date}
            gone = sorted({(cut.table, cut.version) for cut in cuts} & there)
            dropped = size = 0
            for table in dict.fromkeys(name for name, _ in gone):
                versions = [version for name, version in gone if name == table]
                locations = [
                    folder.location
                    for version in versions
                    for folder in cut_rows.folders_of(self.session, stream, business_date, version)
                    if folder.table == table
                ]
                dropped += self._lead_away(stream, table, business_date, versions, locations)
                size += sum(file.stat().st_size for one in locations for file in self.files(one))
            cut_rows.release(self.session, stream, business_date, gone)
        return Dropped(dropped, size)

    def _lead_away(
        self, stream: StreamId, table: str, business_date: date, versions: Sequence[int], locations: Sequence[str]
    ) -> int:
        """How many partitions were dropped: one, or none where another version stays or it leads elsewhere."""
        leads = self._metastore.location(table.lower(), business_date)
        if leads not in [self.path_of(one) for one in locations]:
            return 0
        staying = cut_rows.current_folder(self.session, stream, table, business_date, but=versions)
        if staying is not None:
            self._place(stream, business_date, *staying)
            return 0
        self.session.execute("SELECT")
        self._metastore.drop(table.lower(), business_date)
        return 1

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        with translated(f"read the expired cuts of {sync}"):
            try:
                return cut_rows.expired(self.session, self._stream(sync))
            except cut_rows.MISSING:
                return ()

    def _kept(self, stream: StreamId) -> Sequence[KeptCut]:
        try:
            return cut_rows.kept(self.session, stream)
        except cut_rows.MISSING:
            return ()

    # ---- places -----------------------------------------------------------------------------------------------------

    def path_of(self, location: str) -> Path:
        """Where a partition of these rows lies."""
        return local(location_of(self._warehouse, location)) / "data"

    def files(self, location: str) -> list[Path]:
        return sorted(self.path_of(location).glob("*.parquet"))

    @contextmanager
    def taking_turns(self) -> Iterator[None]:
        """Whoever publishes, lets expire or removes in this database of the metastore does so alone."""
        lock = f"seamline hive {options_of(self._destination).metastore} {self._destination.namespace}"
        self.session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (lock,))
        try:
            yield
        finally:
            if not self.session.closed:
                self.session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (lock,))

    def _stream(self, sync: str) -> StreamId:
        return StreamId(sync, self._destination.name)


def open_cuts(destination: DestinationPlan) -> HiveCuts:
    """In a session and a connection to the metastore of their own."""
    metastore = open_metastore(resolve(options_of(destination).metastore), destination.namespace)
    try:
        session = open_session(resolve(destination.connection), application_name="seamline cuts")
    except BaseException:
        metastore.close()
        raise
    return HiveCuts(destination, session, metastore)
