"""The files of a cut, prepared and read back: the first phase of its publish."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.domain.errors import GateFailed, Refused
from seamline.domain.staged_cut import StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.files.dialect import CSV
from seamline.files.stores.store import Sendable
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.files.options import options_of
from seamline.sinks.files.staging import staging_of
from seamline.sinks.files.state import HeldCut, HeldTable
from seamline.sinks.files.table_files import (
    CutNames,
    MadeTable,
    control_of,
    made_csv,
    made_parquet,
    require_rows,
)
from seamline.sinks.files.two_phase import DeliveredFile, Delivery, ManifestLog
from seamline.sinks.lake.loads import staged_files

# Of rows that could not be compared: their digest is made here, and here alone.
_UNCOMPARED = "delivered"


@dataclass(frozen=True, slots=True)
class Publishing:
    """A cut that is about to be published under a version, by an attempt of its own."""

    cut: StagedCut
    definitions: Mapping[str, Table]
    signed_by: str
    version: int
    attempt: str

    @property
    def folder(self) -> str:
        return f"{self.cut.sync}/{self.cut.business_date.isoformat()}/v{self.version}"


@dataclass(frozen=True, slots=True)
class Prepared:
    held: HeldCut
    delivery: Delivery


def prepared(log: ManifestLog, destination: DestinationPlan, publishing: Publishing) -> Prepared:
    """GateFailed: a staged table, or what the store gives back of its files, holds something else than was compared."""
    options, cut = options_of(destination), publishing.cut
    made = {one.table: _made(log, destination, publishing, one) for one in cut.tables}
    held = HeldCut(
        cut.run_id,
        cut.business_date,
        publishing.version,
        cut.position,
        cut.as_of,
        cut.verdict.value,
        dict(cut.left_out),
        publishing.signed_by,
        datetime.now(UTC),
        publishing.folder,
        options.format,
        options.dialect,
        {one.table: _held(publishing, one, made[one.table]) for one in cut.tables},
        options.control_file,
        options.flag_file,
    )
    control = log.write(publishing.attempt, options.control_file, io.BytesIO(control_of(held, cut.sync)))
    flag = log.write(publishing.attempt, options.flag_file, io.BytesIO())
    rows = [file.file for table in made.values() for file in table.files]
    delivery = Delivery(publishing.attempt, publishing.folder, (*rows, control, flag))
    expected = {
        file.file.name: (held.tables[table], file.digest) for table, files in made.items() for file in files.files
    }

    def check(file: DeliveredFile, path: Path) -> None:
        if file.name in expected:
            of_table, digest = expected[file.name]
            require_rows(held, of_table, cut.sync, path, digest, run_key=_run_key(of_table))

    log.prepare(delivery, check=check)
    return Prepared(held, delivery)


def _made(log: ManifestLog, destination: DestinationPlan, publishing: Publishing, staged: StagedTable) -> MadeTable:
    if staged.table not in publishing.definitions:
        raise Refused(f"{staged.table} is derived: no derived table is delivered as a file", table=staged.table)
    options, table = options_of(destination), publishing.definitions[staged.table]
    files = staged_files(staging_of(destination), Load(table, staged.staged_as, staged.rows, staged.digest))
    run_key = staged.digest.run_key if staged.digest else _UNCOMPARED
    totals = options.totals_of(staged.table)

    def write(name: str, content: Sendable) -> DeliveredFile:
        return log.write(publishing.attempt, name, content)

    if options.format == CSV:
        cut = publishing.cut
        names = CutNames(cut.sync, cut.business_date, publishing.version)
        made = made_csv(table, files, names, options.dialect, totals, run_key, write=write)
    else:
        made = made_parquet(table, files, totals, run_key, write=write)
    if staged.digest is not None and made.digest != staged.digest.digest:
        raise GateFailed(
            f"the staged table {staged.staged_as} now holds other values than were compared",
            hint="nothing was published. Somebody changed its files: clear the task that staged it",
            table=staged.table,
        )
    return made


def _held(publishing: Publishing, staged: StagedTable, made: MadeTable) -> HeldTable:
    is_proven = publishing.cut.verdict is Verdict.MATCH or bool(publishing.signed_by)
    return HeldTable(
        replace(publishing.definitions[staged.table], rows_estimate=0, origin=""),
        staged.mode,
        staged.rows,
        staged.digest,
        is_proven,
        tuple(one.file for one in made.files),
        made.totals,
    )


def _run_key(held: HeldTable) -> str:
    return held.digest.run_key if held.digest else _UNCOMPARED
