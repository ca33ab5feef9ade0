"""PostgreSQL sessions that share one exported snapshot, as ReadViews.

Statements carry their literals, escaped here: nothing is formatted into them by the client.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S, SILENCE_S
from seamline.databases.postgres.canonical import (
    bucket_expression,
    bytes_number,
    canonical_expression,
    columns_hash_bytes_expression,
    columns_hash_expression,
    comparable,
    date_conditions,
    hash_expression,
    hash_number,
    literal,
    quick_row_text_expression,
    quoted,
    row_text_expression,
    text_hash_bytes_expression,
    text_hash_expression,
    text_literal,
)
from seamline.databases.postgres.client import Session, cannot_connect, libpq_arguments, seamline_error
from seamline.databases.postgres.shadow import shadow_relation
from seamline.databases.postgres.watched import connect
from seamline.domain.canonical import (
    SUMMED_BELOW,
    FloatSummary,
    exact_columns,
    group_key,
    inexact_columns,
    parse_row_text,
    row_text,
)
from seamline.domain.catalogue import TEXTS, Column, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict, SeamlineError, TransientError
from seamline.domain.measure import HASH_DIGITS, Measure
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.ports.digests_by_keys import Others
from seamline.ports.shadow import ShadowCopy

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS_PER_STATEMENT = 500
# Four aggregates each, and a target list has 1,664 entries.
_SUMMARIES_PER_STATEMENT = 400
# The version from which bytes are cast to numbers.
_CASTS_BYTES = 180_000
# What an administrator gave the role must not end a view in its hours. A table that somebody alters just now is waited
# for for 30 s.
_PATIENT = (
    "SET statement_timeout = 0",
    "SET transaction_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET lock_timeout = '30s'",
)
# JIT compiles for longer than these scans save; the texts of the digest need these output settings.
SESSION_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET bytea_output = 'hex'",
    "SET extra_float_digits = 1",
    "SET search_path = ''",
    "SET jit = off",
    # Views share the work already. Measured against MariaDB 11.4.5, which scans on one core: more processor, same time.
    "SET max_parallel_workers_per_gather = 0",
)


@dataclass(frozen=True, slots=True)
class Relation:
    """Where the rows of a table stand: the live table, a staged one or a partition of a cut."""

    schema: str
    name: str

    def __str__(self) -> str:
        """As SQL names it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


class PostgresReadView:
    """Reads the tables where `relations` says. `position` is what the caller knows the rows to stand at.

    The session must have been opened by `open_views` (UTC, repeatable read, read only).
    """

    def __init__(
        self,
        session: Session,
        *,
        tables: Sequence[Table],
        relations: Mapping[str, Relation],
        position: Position,
    ) -> None:
        self._session = session
        self._tables = {table.name: table for table in tables}
        self._relations = relations
        self._position = position
        # By table: what stands for it in this view.
        self._shadows: Mapping[str, str] = {}

    @property
    def position(self) -> Position:
        return self._position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        """One pass over the segment. Each row is hashed once: bucket and sums are taken from the derived table."""
        table = self._table(segment.table)
        bucket, is_outer = self._bucket(table, segment, run_key)
        row_hash, low, high = self._hash(exact_columns(_hashed(table, segment)), run_key)
        if is_outer:
            bucket = f"mod({low},{segment.buckets})" if segment.buckets > 1 else "0"
        # OFFSET 0 keeps the planner from merging the two levels, which would hash each row three times: measured 2.1
        # times as long on PostgreSQL 18.4.
        hashed = (
            f"SELECT {'0' if is_outer else bucket} AS b, {row_hash} AS h"
            f" FROM {self._relation(table)}{self._where(table, segment, run_key)} OFFSET 0"
        )
        statement = (
            f"SELECT {bucket if is_outer else 'b'} AS bucket, count(*), count(h), sum({low}), sum({high})"
            f" FROM ({hashed}) AS hashed GROUP BY bucket"
        )
        return {
            int(number): SegmentDigest(rows, known, int(low or 0), int(high or 0))
            for number, rows, known, low, high in self._fetch(statement)
        }

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        definition = self._table(table)
        row_hash, low, high = self._hash(definition.columns, run_key)
        # OFFSET 0: as in `digests`.
        hashed = f"SELECT {row_hash} AS h FROM {self._relation(definition)} OFFSET 0"
        statement = f"SELECT count(*), count(h), sum({low}), sum({high}) FROM ({hashed}) AS hashed"
        ((rows, known, low_sum, high_sum),) = self._fetch(statement)
        return SegmentDigest(rows, known, int(low_sum or 0), int(high_sum or 0))

    def digests_by_keys(
        self, table: str, keys: Sequence[int], *, run_keys: Sequence[str], others: Others
    ) -> tuple[Sequence[SegmentDigest], Sequence[SegmentDigest]]:
        """`ports.digests_by_keys.DigestsByKeys`. The row text is made once for all hashes of a row."""
        definition = self._table(table)
        casts_bytes = self._session.info.server_version >= _CASTS_BYTES
        to_text = quick_row_text_expression if casts_bytes else row_text_expression
        to_hash = text_hash_bytes_expression if casts_bytes else text_hash_expression
        to_number = bytes_number if casts_bytes else hash_number
        is_named = f"{quoted(definition.key[0])} = ANY ('{{{','.join(map(str, keys))}}}')" if keys else "false"
        chosen, where = (is_named, "") if others is Others.APART else ("true", f" WHERE {is_named}")
        text = to_text(exact_columns(definition))
        # OFFSET 0: as in `digests`.
        texts = f"SELECT {chosen} AS named, {text} AS t FROM {self._relation(definition)}{where} OFFSET 0"
        hashes = {f"h{place}": to_hash("t", run_key=run_key) for place, run_key in enumerate(run_keys)}
        hashed = (
            f"SELECT named, {', '.join(f'{h} AS {name}' for name, h in hashes.items())} FROM ({texts}) AS x OFFSET 0"
        )
        sums = ", ".join(f"count({h}), sum({to_number(h, start=1)}), sum({to_number(h, start=16)})" for h in hashes)
        answers = self._fetch(f"SELECT named, count(*), {sums} FROM ({hashed}) AS hashed GROUP BY named")
        found = {is_of_named: _digests_of(rows, rest) for is_of_named, rows, *rest in answers}
        nothing = [SegmentDigest()] * len(run_keys)
        return found.get(True, nothing), found.get(False, nothing)

    def key_span(self, table: str) -> tuple[int, int] | None:
        definition = self._table(table)
        name = quoted(definition.key[0])
        ((least, greatest),) = self._fetch(f"SELECT min({name}), max({name}) FROM {self._relation(definition)}")
        return None if least is None else (_whole(least, table), _whole(greatest, table))

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        """Identical rows of a keyless table come folded into one with their number of copies."""
        table = self._table(segment.table)
        key = row_text_expression(table.key_columns or exact_columns(table))
        hashed = hash_expression(_hashed(table, segment), run_key=run_key)
        source = f" FROM {self._relation(table)}{self._where(table, segment, run_key)}"
        if table.is_keyed:
            return [RowHash(_text(k), _text(h)) for k, h in self._fetch(f"SELECT {key}, {hashed}{source}")]
        statement = f"SELECT {_exact(key)}, {hashed}, count(*){source} GROUP BY 1, 2"
        return [RowHash(_text(k), _text(h), copies) for k, h, copies in self._fetch(statement)]

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        definition = self._table(table)
        if not definition.is_keyed:
            names = [column.name for column in exact_columns(definition)]
            return {key: dict(zip(names, parse_row_text(exact_columns(definition), key), strict=True)) for key in keys}
        found: dict[str, Mapping[str, str | None]] = {}
        wanted = set(keys)
        for start in range(0, len(keys), _KEYS_PER_STATEMENT):
            for row in self._rows_with_keys(definition, keys[start : start + _KEYS_PER_STATEMENT]):
                key = row_text(definition.key_columns, [row[name] for name in definition.key])
                # A collation may find a neighbour ('a' for 'A'); only the exact key counts.
                if key in wanted:
                    found[key] = row
        return found

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        table = self._table(segment.table)
        groups = [_exact(canonical_expression(table.column(name))) for name in by]
        total = _measured(measure, [table.column(name) for name in columns]) if columns else "NULL"
        grouped = f" GROUP BY {', '.join(str(n + 1) for n in range(len(by)))}" if by else ""
        statement = (
            f"SELECT {', '.join([*groups, 'count(*)', total])}"
            f" FROM {self._relation(table)}{self._where(table, segment, '')}{grouped}"
        )
        return {
            group_key([None if text is None else _text(text) for text in row[: len(by)]]): (
                int(row[-2]),
                None if row[-1] is None else Decimal(str(row[-1])),
            )
            for row in self._fetch(statement)
        }

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        """The columns that the digest leaves out, each with its summary."""
        table = self._table(segment.table)
        columns = inexact_columns(table)
        found: dict[str, FloatSummary] = {}
        for start in range(0, len(columns), _SUMMARIES_PER_STATEMENT):
            found |= self._float_summaries(table, segment, columns[start : start + _SUMMARIES_PER_STATEMENT])
        return found

    def _float_summaries(self, table: Table, segment: Segment, columns: Sequence[Column]) -> dict[str, FloatSummary]:
        numbers = [f"{quoted(column.name)}::float8" for column in columns]
        # By way of the text: a cast from float8 to numeric keeps 15 digits.
        parts = ", ".join(
            f"count({n}), min({n}), max({n}), sum({n}::text::numeric) FILTER (WHERE abs({n}) < {SUMMED_BELOW})"
            for n in numbers
        )
        (row,) = self._fetch(f"SELECT {parts} FROM {self._relation(table)}{self._where(table, segment, '')}")
        return {column.name: FloatSummary(*row[4 * n : 4 * n + 4]) for n, column in enumerate(columns)}

    def columns(self, table: str) -> tuple[str, ...]:
        relation = self._place(table)
        if relation is None:
            return ()
        schema, name = text_literal(relation.schema), text_literal(relation.name)
        statement = (
            "SELECT a.attname FROM pg_catalog.pg_attribute a"
            " JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {schema} AND c.relname = {name} AND a.attnum > 0 AND NOT a.attisdropped"
            " ORDER BY a.attnum"
        )
        return tuple(_text(found) for (found,) in self._fetch(statement))

    def typed_rows(self, table: Table, segment: Segment) -> "Iterator[pa.RecordBatch]":
        """`kinds.bulk.ReadsTypedRows`."""
        # Most views have no use for Arrow.
        from seamline.databases.postgres.typed_rows import expression_of, typed_batches

        # That of a source is locked where it was not given.
        self._table(table.name)
        columns = ", ".join(map(expression_of, table.columns))
        selected = f"SELECT {columns} FROM {self._relation(table)}{self._where(table, segment, '')}"
        yield from typed_batches(table, self._blocks(f"COPY ({selected}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"))

    def sample(self, table: str, *, rows: int, key_from: int | None = None) -> Sequence[str]:
        """`ports.shadow.Shadows`."""
        definition = self._table(table)
        key = row_text_expression(definition.key_columns or exact_columns(definition))
        where = self._where(definition, Segment(table, key_from=key_from), "")
        return [
            _text(found)
            for (found,) in self._fetch(f"SELECT {key} FROM {self._relation(definition)}{where} LIMIT {rows}")
        ]

    def shadow(self, wanted: ShadowCopy) -> "PostgresReadView":
        """`ports.shadow.Shadows`."""
        view = copy(self)
        view._shadows = {wanted.table.name: shadow_relation(wanted, self._stored(wanted.table))}
        return view

    def close(self) -> None:
        self._session.close()

    def _rows_with_keys(self, table: Table, keys: Sequence[str]) -> Iterator[dict[str, str | None]]:
        wanted = []
        for key in keys:
            texts = parse_row_text(table.key_columns, key)
            literals = [literal(c, text or "") for c, text in zip(table.key_columns, texts, strict=True)]
            wanted.append(f"({','.join(literals)})")
        selected = ",".join(canonical_expression(column) for column in table.columns)
        names = ",".join(map(comparable, table.key_columns))
        statement = f"SELECT {selected} FROM {self._relation(table)} WHERE ({names}) IN ({','.join(wanted)})"
        for row in self._fetch(statement):
            texts = tuple(None if value is None else _text(value) for value in row)
            yield dict(zip((column.name for column in table.columns), texts, strict=True))

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            raise SchemaConflict(f"this read view does not know table {name!r}", table=name)
        return self._tables[name]

    def _place(self, table: str) -> Relation | None:
        return self._relations.get(table)

    def _relation(self, table: Table) -> str:
        return self._shadows.get(table.name) or self._stored(table)

    def _stored(self, table: Table) -> str:
        relation = self._place(table.name)
        if relation is None:
            raise SchemaConflict(f"no relation was named for table {table.name!r}", table=table.name)
        return str(relation)

    def _hash(self, columns: Sequence[Column], run_key: str) -> tuple[str, str, str]:
        """The row hash, and both of its numbers by the name `h`."""
        if self._session.info.server_version >= _CASTS_BYTES:
            row_hash = columns_hash_bytes_expression(columns, run_key=run_key)
            return row_hash, bytes_number("h", start=1), bytes_number("h", start=16)
        row_hash = columns_hash_expression(columns, run_key=run_key)
        return row_hash, hash_number("h", start=1), hash_number("h", start=16)

    def _bucket(self, table: Table, segment: Segment, run_key: str) -> tuple[str, bool]:
        """The bucket's expression, and whether it is taken from the hash `h` that the derived table has anyway."""
        if table.is_keyed or not segment.columns:
            return bucket_expression(table, buckets=segment.buckets, row_hash="h"), not table.is_keyed
        full = hash_expression(table, run_key=run_key)
        return bucket_expression(table, buckets=segment.buckets, row_hash=full), False

    def _where(self, table: Table, segment: Segment, run_key: str) -> str:
        conditions = []
        if segment.date_column:
            name = quoted(table.column(segment.date_column).name)
            conditions += date_conditions(name, segment)
        if segment.key_from is not None:
            conditions.append(f"{quoted(table.key[0])} >= {segment.key_from}")
        if segment.key_below is not None:
            conditions.append(f"{quoted(table.key[0])} < {segment.key_below}")
        if segment.selection is not None:
            of, wanted = segment.selection
            row_hash = "" if table.is_keyed else hash_expression(table, run_key=run_key)
            bucket = bucket_expression(table, buckets=of, row_hash=row_hash)
            conditions.append(f"{bucket} IN ({','.join(str(int(number)) for number in wanted)})")
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _fetch(self, statement: str) -> Sequence[tuple[Any, ...]]:
        try:
            # A savepoint: a question that fails must not end the transaction that the view stands in.
            with self._session.transaction():
                return self._session.execute(statement.encode()).fetchall()
        except psycopg.Error as exc:
            raise self._fault(exc) from exc

    def _blocks(self, statement: str) -> Iterator[bytes]:
        try:
            # A savepoint, as for every question: what fails for one table must not end the view.
            with (
                self._session.transaction(),
                self._session.cursor() as cursor,
                cursor.copy(statement.encode()) as copy,
            ):
                for block in copy:
                    yield bytes(block)
        except psycopg.Error as exc:
            raise self._fault(exc) from exc

    def _fault(self, exc: psycopg.Error) -> SeamlineError:
        return seamline_error(exc, f"read the destination at {self._position}")


def open_views(
    connection: Connection,
    *,
    tables: Sequence[Table],
    relations: Mapping[str, Relation],
    count: int,
    position_of: Callable[[Session], Position],
    silence_s: float = SILENCE_S,
) -> list[PostgresReadView]:
    """`count` views of one and the same snapshot. `position_of` reads the position inside it, in the first session.
    `silence_s`: as of `open_session`."""
    sessions: list[Session] = []
    try:
        holder = _open_session(connection, sessions, silence_s)
        row = holder.execute("SELECT pg_export_snapshot()").fetchone()
        snapshot = text_literal(str(row[0])) if row else ""
        position = position_of(holder)
        while len(sessions) < count:
            session = _open_session(connection, sessions, silence_s)
            session.execute(f"SET TRANSACTION SNAPSHOT {snapshot}".encode())
    except BaseException as exc:
        for session in sessions:
            session.close()
        if isinstance(exc, psycopg.OperationalError):
            raise TransientError(f"cannot open read views on {connection.connection_id}: {exc}") from exc
        raise
    return [PostgresReadView(session, tables=tables, relations=relations, position=position) for session in sessions]


def _open_session(connection: Connection, sessions: list[Session], silence_s: float) -> Session:
    try:
        session = connect(
            silence_s=silence_s,
            limit_s=QUESTION_S,
            autocommit=True,
            **libpq_arguments(connection, application_name="seamline read view"),
        )
    except psycopg.Error as exc:
        raise cannot_connect(connection, exc) from exc
    sessions.append(session)
    for setting in (*_PATIENT, *SESSION_SETTINGS):
        session.execute(setting)
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    return session


def _whole(value: object, table: str) -> int:
    """A key as a number. The column of an unsigned one is numeric here, which holds NaN and infinities too."""
    if not isinstance(value, int) and not (isinstance(value, Decimal) and value.is_finite()):
        raise SchemaConflict(f"the key of {table} holds no whole numbers but {value!r}", table=table)
    return int(value)


def _digests_of(rows: int, sums: Sequence[Any]) -> list[SegmentDigest]:
    """Three numbers for each run key."""
    return [
        SegmentDigest(rows, known, int(low or 0), int(high or 0))
        for known, low, high in zip(sums[::3], sums[1::3], sums[2::3], strict=True)
    ]


def _text(value: object) -> str:
    return str(value)


def _hashed(table: Table, segment: Segment) -> Table:
    """The table with only the columns that the segment's digest is about."""
    if not segment.columns:
        return table
    return replace(table, columns=tuple(column for column in table.columns if column.name in segment.columns))


def _exact(text: str) -> str:
    """A text to group by, compared byte by byte."""
    return f"({text})"


def _measured(measure: Measure, columns: Sequence[Column]) -> str:
    names = [quoted(column.name) for column in columns]
    match measure:
        case Measure.HASH if columns[0].kind in TEXTS:
            digits = f"regexp_replace({names[0]}::text, '[^0-9]', '', 'g')"
            return f"sum(nullif(right({digits}, {HASH_DIGITS}), '')::numeric)"
        case Measure.SUM | Measure.HASH:
            return f"sum({names[0]})"
        case Measure.LEAST:
            return f"min({names[0]})"
        case Measure.GREATEST:
            return f"max({names[0]})"
        case Measure.MISSING:
            return f"max({names[0]})::numeric - min({names[0]})::numeric + 1 - count(DISTINCT {names[0]})"
        case Measure.DUPLICATES:
            texts = ", ".join(_exact(canonical_expression(column)) for column in columns)
            known = " AND ".join(f"{name} IS NOT NULL" for name in names)
            return f"count(*) FILTER (WHERE {known}) - count(DISTINCT ROW({texts})) FILTER (WHERE {known})"
