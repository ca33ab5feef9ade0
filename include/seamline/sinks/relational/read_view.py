"""One session of a destination inside a consistent snapshot, as a ReadView."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from seamline.databases.mysql.canonical import field_expression, hash_number, text_literal
from seamline.databases.mysql.read import MariaDbReadView
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.position import Position
from seamline.sinks.relational.dialect import OWN_PREFIX
from seamline.sinks.relational.places import Place, relation


class RelationalReadView(MariaDbReadView):
    """`places`: table → (database, name)."""

    def __init__(
        self,
        session: WatchedSession,
        *,
        tables: Sequence[Table],
        places: Mapping[str, Place],
        position: Position,
    ) -> None:
        super().__init__(session, database="", tables=tables, position=position, opened_at=datetime.now(UTC))
        self._places = places

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        definition = self._table(table)
        fields = [field_expression(column) for column in definition.columns]
        row_hash = f"SHA2(CONCAT_WS(',',{text_literal(run_key)},{','.join(fields)}),256)"
        hashed = f"SELECT CAST(LEFT({row_hash},30) AS BINARY(30)) AS h FROM {self._relation(definition)}"
        statement = (
            f"SELECT COUNT(*), COUNT(h), SUM({hash_number('h', start=1)}), SUM({hash_number('h', start=16)})"
            f" FROM ({hashed}) AS hashed"
        )
        ((rows, known, low, high),) = self._fetch(statement)
        return SegmentDigest(rows, known, int(low or 0), int(high or 0))

    def columns(self, table: str) -> tuple[str, ...]:
        """Without those that a table without a key has of ours."""
        database, name = self._places[table]
        statement = (
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = {text_literal(database)}"
            f" AND table_name = {text_literal(name)} ORDER BY ordinal_position"
        )
        found = (str(column) for (column,) in self._fetch(statement))
        return tuple(column for column in found if not column.startswith(OWN_PREFIX))

    def _relation(self, table: Table) -> str:
        return relation(*self._places[table.name])

    def _letters(self, table: Table) -> Mapping[str, tuple[str, str]]:
        """All letters are utf8mb4 here."""
        return {column.name: ("utf8mb4", "") for column in table.columns}
