"""A lake's tables as one read of its catalogue finds them, and their rows: of Iceberg as pyiceberg reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import psycopg
import pyarrow as pa
from pyiceberg.table import StaticTable

from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.reading import DeltaTable, table_at
from seamline.sinks.lake.identity import ROW_HASH

_LEDGER = "SELECT next_offset FROM seamline.ledger WHERE stream = %s"
_STATE = (
    "SELECT state_id, next_offset, snapshots FROM seamline.lake_state WHERE stream = %s ORDER BY state_id DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class LakeHeads:
    """`offset`: the ledger's. `heads`: table → pointer, of Iceberg a metadata file. `state`: number and offset of the
    newest `lake_state`, and `snapshots` what it names."""

    offset: int
    heads: Mapping[str, str]
    state: int
    state_offset: int
    snapshots: Mapping[str, int]

    QUERY: ClassVar[str] = (
        "SELECT table_name, metadata_location FROM public.iceberg_tables"
        " WHERE table_namespace = %s AND iceberg_type IS DISTINCT FROM 'VIEW'"
    )

    @classmethod
    def read(cls, session: "psycopg.Connection[Any]", stream: str, namespace: str) -> Self:
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            ledger = session.execute(_LEDGER, (stream,)).fetchone()
            state = session.execute(_STATE, (stream,)).fetchone()
            heads = dict(session.execute(cls.QUERY.encode(), (namespace,)).fetchall())
        assert ledger is not None, "nothing was ever published"
        return cls(int(ledger[0]), heads, *(state or (0, 0, {})))

    def at_head(self, table: str) -> pa.Table:
        """As any client reads it that looks for nothing but the table."""
        return self._rows(table, None)

    def pinned(self, table: str) -> pa.Table:
        """At the snapshot of `lake_state`."""
        return self._rows(table, self.snapshots[table])

    def apart(self) -> list[str]:
        """Which tables are not where the ledger is, in words."""
        heads = {name: self._number(location) for name, location in self.heads.items()}
        found = [
            f"{name} stands at {heads.get(name)}, the ledger's is {self.snapshots.get(name)}"
            for name in sorted(heads.keys() | self.snapshots.keys())
            if heads.get(name) != self.snapshots.get(name)
        ]
        # A commit that moves no table has no state of its own.
        if self.state_offset > self.offset:
            found.append(f"lake_state is ahead of the ledger: {self.state_offset}, {self.offset}")
        return found

    def _number(self, location: str) -> int | None:
        return StaticTable.from_metadata(location).metadata.current_snapshot_id

    def _rows(self, name: str, snapshot_id: int | None) -> pa.Table:
        table = StaticTable.from_metadata(self.heads[name])
        fields = tuple(field.name for field in table.schema().fields if field.name != ROW_HASH)
        return table.scan(snapshot_id=snapshot_id, selected_fields=fields).to_arrow()


class DeltaHeads(LakeHeads):
    """The numbers are versions; the head of a table is the newest in its log."""

    QUERY: ClassVar[str] = "SELECT table_name, folder || '#' || version FROM seamline.delta_table WHERE namespace = %s"

    def _number(self, location: str) -> int | None:
        return Pointer.parsed(location).number

    def _rows(self, name: str, snapshot_id: int | None) -> pa.Table:
        if snapshot_id is not None:
            return table_at(name, self.heads[name], snapshot_id).arrow()
        folder = Pointer.parsed(self.heads[name]).folder
        newest = max(int(one.stem) for one in (folder / "_delta_log").glob("*.json"))
        return DeltaTable(name, str(folder), newest).arrow()
