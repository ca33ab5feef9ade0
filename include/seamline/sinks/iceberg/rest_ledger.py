"""The ledger as a table of the catalogue: each commit adds a snapshot whose summary holds what a row of a ledger holds.

The table has no rows. `main` is the compare-and-set: a commit requires that it leads where it led when it was read.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, TableUpdate
from pyiceberg.types import NestedField, StringType

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_from_json, position_to_json
from seamline.kinds.ledger_rules import with_tables
from seamline.sinks.iceberg.io import WarehouseIO
from seamline.sinks.iceberg.manifests import write_list
from seamline.sinks.iceberg.rest_client import MADE_BY, Loaded, Place
from seamline.sinks.iceberg.snapshot import as_main
from seamline.sinks.lake.files import NewFiles, url_of
from seamline.sinks.lake.stores import FilePath

NAMESPACE = "seamline"
_STATE, _FINDINGS, _OVER = "seamline.state", "seamline.findings", "seamline.findings-over"
# What the names of tables with rows of cuts begin with.
CUTS = "cuts_"
_PLAIN = re.compile(r"[^A-Za-z0-9]+")
# Snapshots with findings stay beside so many newest ones; the others leave by the hundred.
_KEPT, _LET_GO_AT_ONCE = 500, 100
_RUNS_KEPT = 100


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A change of a name, which no commit of several tables takes: it is decided by the commit of the ledger and done
    behind it, by whoever reads it there first. `new` without a name: the table leaves the catalogue. `uuid`: of the
    table, so that another one of its name stays as it is."""

    old: Place
    new: Place
    uuid: str


@dataclass(frozen=True, slots=True)
class LedgerState:
    """`snapshots`: table → snapshot id, which belong together. `generations`: table → its last one, also of tables that
    have left. `runs`: the last ones that have published."""

    row: LedgerRow
    snapshots: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()

    def with_tables(self, entering: Sequence[Boundary], *, left: Sequence[str], run_id: str) -> "LedgerState":
        """The tables that enter begin their next generation."""
        row, generations = with_tables(self.row, self.generations, entering, left=left)
        return replace(
            self,
            row=row,
            snapshots={table: number for table, number in self.snapshots.items() if table not in left},
            generations=generations,
            runs=(*self.runs, run_id)[-_RUNS_KEPT:],
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger's table as it was read. `state` None: nothing was published, or the stream has ended."""

    table: Loaded
    state: LedgerState | None

    @property
    def snapshot_id(self) -> int | None:
        return self.table.metadata.current_snapshot_id

    @property
    def findings(self) -> list[Finding]:
        """Those that are not over, in the order in which they were kept."""
        return [one for one, _ in self.numbered_findings]

    @property
    def numbered_findings(self) -> list[tuple[Finding, FindingsReported]]:
        """The same, each with number and time of the commit that has kept it."""
        kept = list[tuple[Finding, FindingsReported]]()
        for snapshot in sorted(self.table.metadata.snapshots, key=lambda one: one.sequence_number or 0):
            over = json.loads(_said(snapshot, _OVER) or "[]")
            kept = [one for one in kept if one[0].table not in over]
            at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            number = FindingsReported(snapshot.sequence_number or 0, at)
            kept += [(Finding(*one), number) for one in json.loads(_said(snapshot, _FINDINGS) or "[]")]
        return kept


def place_of(stream: StreamId) -> Place:
    return NAMESPACE, f"{prefix_of(stream.sync)}_{hashlib.sha256(str(stream).encode()).hexdigest()[:12]}"


def cuts_place_of(stream: StreamId) -> Place:
    """Of the table beside it that keeps the rows of its cuts."""
    namespace, name = place_of(stream)
    return namespace, name.replace("ledger_", CUTS, 1)


def prefix_of(sync: str) -> str:
    """Of the names of its ledgers. Another sync's may begin so too."""
    return f"ledger_{_PLAIN.sub('_', sync)}"


def stream_of(table: Loaded) -> StreamId:
    """Whose ledger it is."""
    sync, _, destination = table.metadata.properties[MADE_BY].rpartition("@")
    return StreamId(sync, destination)


def is_ledger(table: Loaded) -> bool:
    """Whether a publish has made it: tables of somebody else's may lie there too."""
    return "@" in table.metadata.properties.get(MADE_BY, "") and table.place == place_of(stream_of(table))


def ledger_in(table: Loaded, stream: StreamId) -> Ledger:
    said = said_by(table, _STATE)
    return Ledger(table, _read(json.loads(said), stream) if said else None)


def empty_ledger(location: FilePath) -> TableMetadata:
    schema = Schema(NestedField(1, "stream", StringType(), required=False))
    properties = {"format-version": "2"}
    return new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, url_of(location), properties)


def updates_of(
    ledger: Ledger,
    state: LedgerState | None,
    *,
    files: NewFiles,
    io: WarehouseIO,
    findings: Sequence[Finding] = (),
    over: Sequence[str] = (),
) -> list[TableUpdate]:
    """One snapshot more, and without those that are let go of."""
    said = {
        _STATE: json.dumps(_written(state)) if state is not None else "",
        _FINDINGS: json.dumps([[one.table, one.kind, one.key, one.offset] for one in findings]) if findings else "",
        _OVER: json.dumps(list(over)) if over else "",
    }
    return [*saying(ledger.table, said, files=files, io=io), *_let_go(ledger.table.metadata)]


def saying(table: Loaded, said: Mapping[str, str], *, files: NewFiles, io: WarehouseIO) -> list[TableUpdate]:
    """One snapshot more of a table without rows, whose summary says this. Its manifest list, which names nothing, is
    written by this."""
    base = table.metadata
    assert not isinstance(base, TableMetadataV1), "its table is made with format 2"
    listed = files.metadata(".avro")
    snapshot = Snapshot(
        snapshot_id=secrets.randbits(62),
        parent_snapshot_id=base.current_snapshot_id,
        sequence_number=base.last_sequence_number + 1,
        timestamp_ms=max(int(time.time() * 1000), base.last_updated_ms),
        manifest_list=url_of(listed),
        summary=Summary(Operation.APPEND, **{name: text for name, text in said.items() if text}),
        schema_id=base.current_schema_id,
    )
    write_list(listed, snapshot, [], io)
    files.synced()
    return [AddSnapshotUpdate(snapshot=snapshot), as_main(snapshot.snapshot_id)]


def _let_go(metadata: TableMetadata) -> Iterator[TableUpdate]:
    others = [
        one.snapshot_id
        for one in metadata.snapshots
        if one.snapshot_id != metadata.current_snapshot_id and not (_said(one, _FINDINGS) or _said(one, _OVER))
    ]
    if len(others) >= _KEPT + _LET_GO_AT_ONCE:
        yield RemoveSnapshotsUpdate(snapshot_ids=others[:-_KEPT])


def said_by(table: Loaded, name: str) -> str:
    """What the summary of its newest snapshot says under this name; "" for nothing."""
    snapshot = table.metadata.current_snapshot()
    return _said(snapshot, name) if snapshot is not None else ""


def _said(snapshot: Snapshot, name: str) -> str:
    return str(snapshot.summary.additional_properties.get(name, "")) if snapshot.summary is not None else ""


def _written(state: LedgerState) -> dict[str, Any]:
    row = state.row
    return {
        "topic": row.topic,
        "topic_id": row.topic_id,
        "next_offset": row.next_offset,
        "position": position_to_json(row.position),
        "epoch": row.epoch,
        "applied_transactions": row.applied_transactions,
        "committed_ms": row.committed_ms,
        "last_marker": row.last_marker,
        "boundaries": [
            {"table": one.table, "position": position_to_json(one.position), "generation": one.generation}
            | {"high_marker": one.high_marker, "ended": one.ended, "fingerprint": one.fingerprint}
            for one in row.boundaries
        ],
        "snapshots": dict(state.snapshots),
        "generations": dict(state.generations),
        "runs": list(state.runs),
        "follow_ups": [asdict(one) for one in state.follow_ups],
    }


def _read(said: Mapping[str, Any], stream: StreamId) -> LedgerState:
    row = LedgerRow(
        stream,
        said["topic"],
        said["topic_id"],
        said["next_offset"],
        position_from_json(said["position"]),
        said["epoch"],
        said["applied_transactions"],
        said["committed_ms"],
        tuple(Boundary(**{**one, "position": position_from_json(one["position"])}) for one in said["boundaries"]),
        said["last_marker"],
    )
    follow_ups = tuple(FollowUp(tuple(one["old"]), tuple(one["new"]), one["uuid"]) for one in said["follow_ups"])
    return LedgerState(row, said["snapshots"], said["generations"], tuple(said["runs"]), follow_ups)
