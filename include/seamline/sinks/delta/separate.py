"""Delta tables by themselves: those that any tool writes, each read at the newest version of its own log."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.separate import NOWHERE, Stand
from seamline.plan.model import DestinationPlan
from seamline.ports import Problem, Survey
from seamline.ports.separate import OpenedSide
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.options import options_of
from seamline.sinks.delta.read_back import living_rows
from seamline.sinks.delta.state import DataFile, TableState
from seamline.sinks.delta.types import NTZ, arrow_type, typed
from seamline.sinks.lake.files import content, local, namespace_folder, translated
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.sinks.lake.spark_types import decimal_digits

# Of readers: what changes how rows are read, and is known here. What only writers must know changes nothing for us.
_FEATURES = frozenset({"deletionVectors", "timestampNtz", "vacuumProtocolCheck"})
_MAPPING = "delta.columnMapping.mode"
_WHOLE = {"byte": 32, "short": 32, "integer": 32, "long": 64}
_KINDS = {
    "boolean": Kind.BOOLEAN,
    "double": Kind.DOUBLE,
    "float": Kind.FLOAT,
    "date": Kind.DATE,
    "string": Kind.STRING,
    "binary": Kind.BYTES,
    NTZ: Kind.DATETIME,
    "timestamp": Kind.INSTANT,
}
# Types whose values the log writes as texts that Arrow reads back exactly.
_OF_PARTITIONS = frozenset({*_WHOLE, "boolean", "date", "string"})


@dataclass(frozen=True, slots=True)
class DeltaSide:
    """`ports.separate.SeparateSide`. The destination's connection is not used: the log of a table says all."""

    destination: DestinationPlan

    def survey(self, tables: Sequence[str]) -> Survey:
        found, problems = list[Table](), list[Problem]()
        for name in tables:
            if not DeltaLog(self._folder(name)).is_there:
                problems.append(self._missing(name))
                continue
            try:
                fields = _fields(self._state(name))
            except Refused as exc:
                problems.append(Problem(exc.message, exc.hint, table=name))
                continue
            columns = {field["name"]: _column(field) for field in fields if field["name"] != ROW_HASH}
            unread = [field for field in fields if columns.get(field["name"], ...) is None]
            problems += [_no_kind(name, field) for field in unread]
            if not unread:
                found.append(Table(name, tuple(column for column in columns.values() if column is not None)))
        return Survey(tuple(found), tuple(problems))

    def open(self, tables: Sequence[Table], count: int) -> OpenedSide:
        """Of each table its newest version. They stay readable until a VACUUM of their writer removes their files. The
        moment is by the clock of this machine: a lake has none."""
        now, read, places = datetime.now(UTC), dict[Table, Batches](), list[str]()
        for table in tables:
            state = self._state(table.name)
            read[table] = _rows(_widened(table), state, self._folder(table.name))
            places.append(f"{table.name} at version {state.version}")
        place = ", ".join(places)
        return OpenedSide([LakeView(NOWHERE, read)] * count, Stand(place, now, mark=place))

    def _namespace(self) -> Path:
        return local(namespace_folder(options_of(self.destination).warehouse, self.destination.namespace))

    def _folder(self, table: str) -> Path:
        return self._namespace() / table

    def _state(self, table: str) -> TableState:
        folder = self._folder(table)
        with translated(f"read the log of table {table}"), _undamaged(table, folder / "_delta_log"):
            return newest_of_others(folder)

    def _missing(self, name: str) -> Problem:
        known = [path.name for path in content(self._namespace()) if DeltaLog(local(path)).is_there]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else "Correct its name, the namespace, or the warehouse"
        return Problem(f"table {name} has no Delta log in {self._folder(name)}", hint, table=name)


@contextmanager
def _undamaged(table: str, place: Path) -> Iterator[None]:
    """Refused, where `place` cannot be read because of what is in it."""
    try:
        yield
    except (pa.ArrowException, ValueError) as exc:
        raise _damaged(table, place, exc) from exc
    except OSError as exc:
        # Arrow's, about the content of a file: the system's own have a number.
        if exc.errno is None:
            raise _damaged(table, place, exc) from exc
        raise


def _damaged(table: str, place: Path, exc: Exception) -> Refused:
    return Refused(
        f"{place} of table {table} is damaged: {exc}",
        hint="the writer of the table has to restore it, or to write the table again",
        table=table,
    )


def newest_of_others(folder: Path) -> TableState:
    """The newest version of a table, whoever writes it. Refused: its log or its rows are in a form that is not read
    here, so that an older version could be taken for the newest one."""
    log = DeltaLog(folder, accepted=_readable)
    versions = log.versions()
    last = versions[-1] if versions else -1
    if not log.checkpoints() and 0 not in versions:
        raise _unread_checkpoint(folder)
    state = log.newest()
    if state.version < last:
        raise _unread_checkpoint(folder)
    return state


def _unread_checkpoint(folder: Path) -> Refused:
    return Refused(
        f"the log of {folder} cannot be read from its beginning, nor from a checkpoint of one classic file",
        hint="checkpoints in parts and of form V2 are not read: let its writer set delta.checkpointPolicy to classic",
    )


def _readable(state: TableState, folder: Path) -> TableState:
    protocol, settings = state.protocol, state.metadata.get("configuration") or {}
    if unknown := sorted(set(protocol.get("readerFeatures") or ()) - _FEATURES - {"columnMapping"}):
        raise Refused(
            f"the Delta table in {folder} asks its readers for {', '.join(unknown)}, which is not known here",
            hint="compare a copy of it without that feature",
        )
    if (mode := settings.get(_MAPPING, "none")) != "none":
        raise Refused(
            f"the Delta table in {folder} has {_MAPPING} = {mode}: its files call columns otherwise than its schema",
            hint="compare a copy of it without column mapping",
        )
    types = {field["name"]: field["type"] for field in _fields(state)}
    for name in _partitions(state):
        if types[name] not in _OF_PARTITIONS:
            raise Refused(
                f"the Delta table in {folder} has partitions by {name}, {types[name]}",
                hint=f"partitions of these types are read: {', '.join(sorted(_OF_PARTITIONS))}",
            )
    return state


def _fields(state: TableState) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(state.metadata["schemaString"])["fields"]
    return fields


def _partitions(state: TableState) -> Sequence[str]:
    return state.metadata.get("partitionColumns") or ()


def _column(field: Mapping[str, Any]) -> Column | None:
    """None: nothing that is compared has values of this type."""
    of = field["type"]
    if not isinstance(of, str):
        return None
    # By this name a FLOAT of MariaDB is known, which prints other digits than these values have.
    name = f"delta {of}" if of in ("float", "double") else of
    column = Column(field["name"], Kind.NATIVE, name, nullable=bool(field["nullable"]))
    if of in _WHOLE:
        return replace(column, kind=Kind.INTEGER, length=_WHOLE[of])
    if of.startswith("decimal("):
        precision, scale = decimal_digits(of)
        return replace(column, kind=Kind.DECIMAL, precision=precision, scale=scale)
    if of not in _KINDS:
        return None
    kind = _KINDS[of]
    return (
        replace(column, kind=kind, precision=6) if kind in (Kind.DATETIME, Kind.INSTANT) else replace(column, kind=kind)
    )


def _widened(table: Table) -> Table:
    """Whole numbers as they lie in files: a key that the source holds in fewer bits may be any number here."""
    columns = (replace(one, length=64) if one.kind is Kind.INTEGER else one for one in table.columns)
    return replace(table, columns=tuple(columns))


def _rows(table: Table, state: TableState, folder: Path) -> Batches:
    types = {field["name"]: arrow_type(field["type"]) for field in _fields(state) if isinstance(field["type"], str)}
    partitions = _partitions(state)
    stored = [column.name for column in table.columns if column.name not in partitions]

    def batches() -> Iterator[pa.RecordBatch]:
        with translated(f"read table {table.name}"):
            for file in state.files.values():
                with _undamaged(table.name, file.path_in(folder)):
                    for found in living_rows(file, folder, stored):
                        arrays = [_values(found, file, name, types[name]) for name in names]
                        yield typed(table, pa.RecordBatch.from_arrays(arrays, names=names))

    names = [column.name for column in table.columns]
    return batches


def _values(rows: pa.RecordBatch, file: DataFile, name: str, of: pa.DataType) -> pa.Array:
    """Of one column as its schema has it. A file that was written before the column came has NULL in it; the value of
    a partition stands in the log alone."""
    # The log has an empty text for NULL.
    text = (file.add.get("partitionValues") or {}).get(name) or None
    try:
        if name in rows.schema.names:
            return rows.column(name).cast(of)
        return pa.array([text], pa.string()).cast(of).take(pa.array([0] * rows.num_rows, pa.int64()))
    except pa.ArrowException as exc:
        raise SchemaConflict(
            f"column {name} of {file.add['path']} holds what its schema, {of}, cannot: {exc}",
            hint="the writer of the table has to mend it",
        ) from exc


def _no_kind(table: str, field: Mapping[str, Any]) -> Problem:
    of = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
    what = f"column {field['name']} of table {table} is {of}, which cannot be compared"
    return Problem(what, "Compare a table without it, or a view of the source that has it as a text", table=table)
