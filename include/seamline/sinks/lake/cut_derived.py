"""What becomes of the derived tables of a lake's cut when it is published: a table each, with one snapshot per cut.

Such a table is the stream's by a row of the catalogue's database, for no ledger names it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from seamline.databases.postgres.client import Session
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.ports import Load
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake.derived import definition_of
from seamline.sinks.lake.loads import StagedFiles, location_of, staged_files
from seamline.sinks.lake.store import PointerMove
from seamline.sinks.lake.stores import FilePath

# The tables with other rows, by the stream whose cut it is, loads, their files, and where pointers lead now.
Placed = Callable[[StreamId, Sequence[Load], Mapping[str, StagedFiles], Mapping[str, str]], Sequence[PointerMove]]


# What is not the same in the table that a pointer leads to, in words.
Differing = Callable[[Table, str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class CutDerived:
    """The derived tables of one destination."""

    warehouse: str | FilePath
    placed: Placed
    differing: Differing

    def require_fit(
        self, session: Session, stream: StreamId, tables: Sequence[Table], heads: Mapping[str, str]
    ) -> None:
        """SchemaConflict: the table of an earlier cut has other columns. Refused: it is somebody else's."""
        _require_own(stream, [table.name for table in tables], heads, cut_rows.derived_tables(session, stream))
        for table in tables:
            found = self.differing(table, heads[table.name]) if table.name in heads else ()
            if found:
                raise SchemaConflict(
                    f"derived table {table.name} of {stream.destination} would have other columns than in the cuts"
                    f" that are there: {', '.join(found)}",
                    hint="a lake's table has the same columns in all its cuts: give the derived table another name in"
                    " the sync, or let its query give the columns of before",
                    sync=stream.sync,
                    table=table.name,
                )

    def moves(
        self, session: Session, stream: StreamId, cut: StagedCut, heads: Mapping[str, str]
    ) -> Sequence[PointerMove]:
        """Where their pointers are to move. Refused: a table of somebody else has the name of one."""
        loads = [
            Load(definition_of(location_of(self.warehouse, table.staged_as)), table.staged_as, table.rows)
            for table in cut.tables
            if table.mode is CutMode.DERIVED
        ]
        if not loads:
            return ()
        owned = cut_rows.derived_tables(session, stream)
        _require_own(stream, [load.table.name for load in loads], heads, owned)
        staged = {load.table.name: staged_files(self.warehouse, load) for load in loads}
        return self.placed(stream, loads, staged, heads)


def _require_own(stream: StreamId, names: Sequence[str], heads: Mapping[str, str], owned: Collection[str]) -> None:
    for name in names:
        if name in heads and name not in owned:
            raise Refused(
                f"table {name} exists in destination {stream.destination} and was not derived by {stream}",
                hint="rename it in the catalogue (ALTER TABLE … RENAME TO …), or give the derived table another name",
                sync=stream.sync,
                table=name,
            )
