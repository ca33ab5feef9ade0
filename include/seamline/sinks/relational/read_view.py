"""One session of a destination inside a consistent snapshot, as a ReadView.

A source of PostgreSQL has exact columns of floats. The server prints those between 1e-4 and 1e15 as PostgreSQL does,
digit by digit, and others with another exponent, a few of them with other digits too. Rows with such a one are fetched
and written by the reference; all others the server hashes itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from seamline.databases.mysql.canonical import (
    canonical_expression,
    field_expression,
    hash_number,
    quoted,
    text_literal,
)
from seamline.databases.mysql.read import BinlogReadView, where_clause
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.canonical import (
    FLOAT_KINDS,
    bucket_of_texts,
    canonical_text,
    digest_of,
    exact_columns,
    row_hash,
    row_of_texts,
)
from seamline.domain.catalogue import Column, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.sinks.relational.dialect import OWN_PREFIX, Dialect
from seamline.sinks.relational.places import Place, relation

_Texts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _OddRow:
    """A row that the reference has written: its key, the text that its hash is of, and its bucket."""

    key: str
    hashed: str
    bucket: int


class RelationalReadView(BinlogReadView):
    """`places`: table → (database, name)."""

    def __init__(
        self,
        session: WatchedSession,
        *,
        tables: Sequence[Table],
        places: Mapping[str, Place],
        position: Position,
        dialect: Dialect,
    ) -> None:
        # Before anything is asked of it.
        self.dialect = dialect.texts
        super().__init__(session, database="", tables=tables, position=position, opened_at=datetime.now(UTC))
        self._places = places

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        found = dict(super().digests(segment, run_key=run_key))
        texts: dict[int, list[str]] = defaultdict(list)
        for row in self._odd_rows(segment, run_key, buckets=segment.buckets):
            texts[row.bucket].append(row.hashed)
        for bucket, of_bucket in texts.items():
            found[bucket] = found.get(bucket, SegmentDigest()) + digest_of(of_bucket, run_key=run_key)
        return found

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        odd = Counter((row.key, row.hashed) for row in self._odd_rows(segment, run_key, buckets=1))
        return [
            *super().row_hashes(segment, run_key=run_key),
            *(RowHash(key, row_hash(text, run_key=run_key), copies) for (key, text), copies in odd.items()),
        ]

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        definition = self._table(table)
        fields = [field_expression(column, dialect=self.dialect) for column in definition.columns]
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

    def _rows_with_keys(self, table: Table, keys: Sequence[str]) -> Iterator[dict[str, str | None]]:
        for row in super()._rows_with_keys(table, keys):
            yield _by_the_reference(table, row)

    def _stored(self, table: Table) -> str:
        return relation(*self._places[table.name])

    def _letters(self, table: Table) -> Mapping[str, tuple[str, str]]:
        """All letters are utf8mb4 here."""
        return {column.name: ("utf8mb4", "") for column in table.columns}

    # ---- floats as PostgreSQL writes them ---------------------------------------------------------------------------

    def _where(self, table: Table, segment: Segment, run_key: str) -> str:
        return f"{super()._where(table, segment, run_key)}{''.join(f' AND {_is_plain(c)}' for c in _floats(table))}"

    def _odd_rows(self, segment: Segment, run_key: str, *, buckets: int) -> Iterator[_OddRow]:
        table = self._table(segment.table)
        if not (floats := _floats(table)):
            return
        # The bucket of a row without a key is in its hash, which the server would make of another text.
        where = where_clause(table, replace(segment, among=(), bucket=None), run_key=run_key, dialect=self.dialect)
        selected = ",".join(canonical_expression(column, dialect=self.dialect) for column in table.columns)
        plain = " AND ".join(map(_is_plain, floats))
        statement = f"SELECT {selected} FROM {self._relation(table)}{where} AND NOT ({plain})"
        names = [column.name for column in table.columns]
        hashed = [one for one in exact_columns(table) if not segment.columns or one.name in segment.columns]
        for values in self._fetch(statement):
            decoded = (value.decode() if isinstance(value, bytes) else value for value in values)
            texts = _by_the_reference(table, dict(zip(names, decoded, strict=True)))
            of, wanted = segment.selection or (1, (0,))
            if bucket_of_texts(table, texts, buckets=of, run_key=run_key) in wanted:
                yield _OddRow(
                    row_of_texts(table.key_columns or exact_columns(table), texts),
                    row_of_texts(hashed, texts),
                    bucket_of_texts(table, texts, buckets=buckets, run_key=run_key),
                )


def _floats(table: Table) -> list[Column]:
    return [column for column in exact_columns(table) if column.kind in FLOAT_KINDS]


def _is_plain(column: Column) -> str:
    """Whether the server prints the value as PostgreSQL does."""
    name = quoted(column.name)
    size = f"ABS(CAST({name} AS DOUBLE))"
    return f"({name} IS NULL OR {name} = 0 OR {size} >= 1e-4 AND {size} < 1e15)"


def _by_the_reference(table: Table, texts: _Texts) -> dict[str, str | None]:
    """What the server prints of a double reads back as that double."""
    written = dict(texts)
    for column in _floats(table):
        text = texts[column.name]
        written[column.name] = None if text is None else canonical_text(column, float(text))
    return written
