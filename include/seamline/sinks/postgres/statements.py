"""The SQL of one table's part of a span: staging table, the MERGE of keyed tables, the multiset steps of keyless ones.

The span's rows stand either in a temporary table that COPY filled or, where there are few, in arrays that come as
parameters of the statement itself. Every statement reads them through one subquery, so all statements see one and the
same row.
"""

import re
from functools import cached_property

from seamline.databases.postgres.canonical import may_be_indexed, quoted, row_text_expression
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table

# A dot keeps these apart from any column a person would name; preflight refuses one that begins so.
OWN_PREFIX = "seamline."
OFFSET, DELETED, MET, COPIES = (quoted(f"{OWN_PREFIX}{name}") for name in ("offset", "deleted", "met", "copies"))
# A byte per column whose value the log may leave out: 1 where this row lacks it. NULL where the row has all.
MISSING = quoted("seamline.missing")
CHUNK, FOUND = quoted("seamline.chunk"), quoted("seamline.found")
_FIRST_MET, _AGE, _COPY = quoted("seamline.first_met"), quoted("seamline.age"), quoted("seamline.copy")
# Where the rest of a transaction stands behind its chunks.
LAST_CHUNK = 2**31 - 1
FINDINGS_KEPT_MAX = 1000
# Stands for a parameter while percent signs of names are doubled for the client.
_PARAMETER = "\0"
_CONTROL = {OFFSET: "bigint", DELETED: "boolean", MET: "boolean", MISSING: "bytea"}
_MODIFIER = re.compile(r"\([0-9, -]+\)")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class TableStatements:
    """All texts for one live table. `number` keeps the names of its staging tables short and apart."""

    def __init__(self, table: Table, *, schema: str, number: int) -> None:
        self.table = table
        self.schema = schema
        self.number = number
        self.unavailable = unavailable_columns(table)
        self.live = f"{quoted(schema)}.{quoted(table.name)}"
        self.staging = f"pg_temp.seamline_staging_{number}"
        self.images = f"pg_temp.seamline_images_{number}"
        self.chunks = f"pg_temp.seamline_chunks_{number}"
        self.moved = f"pg_temp.seamline_moved_{number}"
        self.fields = field_types(table)
        self._keys = [quoted(name) for name in table.key]
        self._old_keys = [quoted(f"{OWN_PREFIX}old_{place}") for place in range(len(table.key))]
        self._columns = ", ".join(quoted(column.name) for column in table.columns)
        self._definitions = ", ".join(f"{name} {of}" for name, of in self.fields.items())
        self.staged = SpanStatements(table, self.live, rows=self.staging)
        self.sent = SpanStatements(table, self.live, rows=_from_arrays(self.fields))

    @cached_property
    def array_types(self) -> list[str]:
        """Of the elements of arrays that are sent."""
        return [array_type(of) for of in self.fields.values()]

    @property
    def create_staging(self) -> str:
        return f"CREATE TEMPORARY TABLE seamline_staging_{self.number} ({self._definitions}) ON COMMIT DELETE ROWS"

    def copy_into(self, place: str) -> str:
        """COPY of a whole batch; into a table of chunks it goes as the last one, by the column's default."""
        return f"COPY {place} ({', '.join(self.fields)}) FROM STDIN (FORMAT binary)"

    # ---- delete-insert ---------------------------------------------------------------------------------------------

    @property
    def create_images(self) -> str:
        """Where the newest images stand while the live rows are away. Nullable: a delete has only its key."""
        return (
            f"CREATE TEMPORARY TABLE seamline_images_{self.number} ON COMMIT DROP AS SELECT 0::bigint AS {OFFSET}, "
            f"false AS {DELETED}, false AS {MET}, false AS {FOUND}, {self._columns} FROM {self.live} WITH NO DATA"
        )

    @property
    def insert_images(self) -> str:
        columns = self._columns
        return f"INSERT INTO {self.live} ({columns}) SELECT {columns} FROM {self.images} WHERE NOT {DELETED}"

    @property
    def image_findings(self) -> str:
        """What `merge` would have returned."""
        shown = ", ".join(f"{_literal(name)}, {quoted(name)}" for name in self.table.key)
        return (
            f"SELECT CASE WHEN {FOUND} THEN 'insert met a row' ELSE 'update met no row' END, "
            f"json_build_object({shown})::text, {OFFSET}, count(*) OVER () FROM {self.images} "
            f"WHERE CASE WHEN {FOUND} THEN NOT {MET} ELSE {MET} AND NOT {DELETED} END "
            f"ORDER BY {OFFSET} LIMIT {FINDINGS_KEPT_MAX}"
        )

    # ---- chunks ---------------------------------------------------------------------------------------------------

    @property
    def create_chunks(self) -> str:
        """Temporary, so that they end with the session: whoever reads the transaction again does so in another one."""
        columns = f"{CHUNK} integer DEFAULT {LAST_CHUNK}, {self._definitions}"
        return f"CREATE TEMPORARY TABLE IF NOT EXISTS seamline_chunks_{self.number} ({columns})"

    @property
    def copy_chunk(self) -> str:
        return f"COPY {self.chunks} ({CHUNK}, {', '.join(self.fields)}) FROM STDIN (FORMAT binary)"

    def gather_chunks(self, *, first: int = 0) -> str:
        """Chunks from `first` on → the staging table: the newest change of a key, with what its first one expected to
        meet."""
        chunks = f"{self.chunks} WHERE {CHUNK} >= {first}"
        fields = ", ".join(self.fields)
        if not self.table.is_keyed:
            return f"INSERT INTO {self.staging} ({fields}) SELECT {fields} FROM {chunks}"
        window = f"OVER (PARTITION BY {', '.join(self._keys)} ORDER BY {CHUNK}"
        newest = ", ".join(_FIRST_MET if field == MET else field for field in self.fields)
        return (
            f"INSERT INTO {self.staging} ({fields}) SELECT {newest} FROM ("
            f"SELECT *, first_value({MET}) {window}) AS {_FIRST_MET}, "
            f"row_number() {window} DESC) AS {_AGE} FROM {chunks}) AS p WHERE {_AGE} = 1"
        )

    @property
    def lacks_values(self) -> str:
        """Whether some row that was gathered lacks a value, by column."""
        asked = ", ".join(f"coalesce(bool_or({_is_missing(place)}), false)" for place, _ in enumerate(self.unavailable))
        return f"SELECT {asked} FROM {self.staging} WHERE NOT {DELETED}"

    def fill_from_chunks(self, place: int, *, first: int = 0) -> str:
        """A value that the newest change of a key left out is that of the newest chunk from `first` on that has it."""
        name = list(self.unavailable)[place]
        own = ", ".join(f"p.{key}" for key in self._keys)
        lacks = f"NOT s.{DELETED} AND {_is_missing(place, 's.')}"
        return (
            f"UPDATE {self.staging} AS s SET {self._filled(place, 's', 'p')} FROM ("
            f"SELECT DISTINCT ON ({own}) {own}, p.{name} FROM {self.chunks} AS p JOIN {self.staging} AS s "
            f"ON {_same(self._keys, 's', 'p')} WHERE {lacks} AND NOT p.{DELETED} "
            f"AND {_is_missing(place, 'p.')} IS NOT TRUE AND p.{CHUNK} >= {first} "
            f"ORDER BY {own}, p.{CHUNK} DESC) AS p WHERE {_same(self._keys, 's', 'p')} AND {lacks}"
        )

    # ---- rows that have changed their key and lack values -----------------------------------------------------------

    @property
    def create_moved(self) -> str:
        """Keys of the moved rows of one batch, new and old. Emptied before each use."""
        types = [self.fields[key] for key in self._keys]
        named = zip([*self._keys, *self._old_keys], [*types, *types], strict=True)
        columns = ", ".join(f"{name} {of}" for name, of in named)
        return f"CREATE TEMPORARY TABLE IF NOT EXISTS seamline_moved_{self.number} ({columns})"

    @property
    def copy_moved(self) -> str:
        return f"COPY {self.moved} ({', '.join([*self._keys, *self._old_keys])}) FROM STDIN (FORMAT binary)"

    def fill_moved_from_chunks(self, place: int, chunk: int) -> str:
        """A value that a moved row of this chunk lacks is that of the newest older chunk that has it under the old key,
        and came after the last delete there."""
        name, own = list(self.unavailable)[place], ", ".join(f"m.{key}" for key in self._keys)
        older = (
            f"SELECT DISTINCT ON ({own}) {own}, p.{name}, p.{DELETED} FROM {self.moved} AS m JOIN {self.chunks} AS p "
            f"ON {self._old_is('p', 'm')} AND p.{CHUNK} < {chunk} "
            f"WHERE p.{DELETED} OR {_is_missing(place, 'p.')} IS NOT TRUE ORDER BY {own}, p.{CHUNK} DESC"
        )
        return (
            f"UPDATE {self.chunks} AS w SET {self._filled(place, 'w', 'o')} FROM ({older}) AS o "
            f"WHERE w.{CHUNK} = {chunk} AND NOT w.{DELETED} AND {_same(self._keys, 'w', 'o')} "
            f"AND NOT o.{DELETED} AND {_is_missing(place, 'w.')}"
        )

    def fill_moved_from_live(self, place: str, *, chunk: int | None = None) -> str:
        """What they lack then is that of the live row under the old key, unless an older chunk deletes it. `place`: the
        table in which they stand."""
        of_chunk = "true"
        if chunk is not None:
            gone = f"SELECT FROM {self.chunks} AS p WHERE {self._old_is('p', 'm')} AND p.{CHUNK} < {chunk}"
            of_chunk = f"w.{CHUNK} = {chunk} AND NOT EXISTS ({gone} AND p.{DELETED})"
        return (
            f"UPDATE {place} AS w SET {self._taken} FROM {self.moved} AS m JOIN {self.live} AS t "
            f"ON {self._live_is_old} WHERE {_same(self._keys, 'w', 'm')} AND NOT w.{DELETED} "
            f"AND {_lacks('w.')} AND {of_chunk}"
        )

    def moved_orphans(self, place: str, *, chunk: int | None = None) -> str:
        """How many of them lack values still."""
        of_chunk = "true" if chunk is None else f"w.{CHUNK} = {chunk}"
        return (
            f"SELECT count(*) FROM {place} AS w JOIN {self.moved} AS m ON {_same(self._keys, 'w', 'm')} "
            f"WHERE NOT w.{DELETED} AND {_lacks('w.')} AND {of_chunk}"
        )

    @property
    def _taken(self) -> str:
        """Every value that a row lacks, taken from `t`."""
        values = [
            f"{name} = CASE WHEN {_is_missing(place, 'w.')} THEN {_as_staged(column, 't')} ELSE w.{name} END"
            for place, (name, column) in enumerate(self.unavailable.items())
        ]
        return ", ".join([*values, f"{MISSING} = NULL"])

    def _filled(self, place: int, row: str, found: str) -> str:
        name = list(self.unavailable)[place]
        return f"{name} = {found}.{name}, {MISSING} = set_byte({row}.{MISSING}, {place}, 0)"

    @property
    def _live_is_old(self) -> str:
        """That the live row `t` has the key that the moved one of `m` had."""
        pairs = zip(self.table.key_columns, self._old_keys, strict=True)
        return " AND ".join(f"t.{quoted(column.name)} = {_as_stored(column, f'm.{old}')}" for column, old in pairs)

    def _old_is(self, one: str, moved: str) -> str:
        """That the staged row has the key that a moved one had."""
        return " AND ".join(f"{one}.{key} = {moved}.{old}" for key, old in zip(self._keys, self._old_keys, strict=True))


def field_types(table: Table) -> dict[str, str]:
    """What is staged of a row, by quoted names, and how: control values first."""
    control = _CONTROL if table.is_keyed else {COPIES: "bigint"}
    return {**control, **{quoted(column.name): staged_type(column) for column in table.columns}}


def staged_type(column: Column) -> str:
    """A text has no limit there: only the assignment to the live column refuses one that is too long, and a key that is
    too long must meet no other. Types that only PostgreSQL has come as texts."""
    is_text = column.kind in (Kind.CHAR, Kind.STRING, Kind.NATIVE)
    return "text" if is_text else destination_type(column)


def _from_arrays(fields: dict[str, str]) -> str:
    """The rows of arrays, a parameter each."""
    arrays = ", ".join(f"{_PARAMETER}::{array_type(of)}[]" for of in fields.values())
    return f"unnest({arrays}) AS w({', '.join(fields)})"


def array_type(staged: str) -> str:
    """Without its modifiers: an array has the values as they come."""
    return _MODIFIER.sub("", staged)


def _as_staged(column: Column, of: str) -> str:
    name = f"{of}.{quoted(column.name)}"
    return f"{name}::text" if column.kind is Kind.NATIVE else name


def _is_missing(place: int, of: str = "") -> str:
    """NULL where the row lacks nothing."""
    return f"get_byte({of}{MISSING}, {place}) = 1"


def _lacks(of: str = "") -> str:
    return rf"position('\x01'::bytea IN {of}{MISSING}) > 0"


def _same(keys: list[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{key} = {other}.{key}" for key in keys)


def identity_index(table: Table, relation: str) -> str:
    """With it a removal costs what it removes, not what the table holds."""
    return f"CREATE INDEX ON {relation} ({identity_hash(table)})"


def identity_hash(table: Table) -> str:
    """Finds candidates for a byte-identical row; their row text decides."""
    return f"hashtextextended({row_text_expression([c for c in table.columns if may_be_indexed(c)])}, 0)"


def multiset_merge(table: Table, live: str, staged: str) -> tuple[str, str]:
    """What leaves `live` and what enters it so that it holds the rows of `staged`; rows of both stay where they are.

    Copies of one row are numbered: the third copy here is the third one there. What makes rows equal is the text of all
    that is stored, and not the canonical text, which leaves out what a type takes for nothing (`a` and `a ` of a CHAR).
    """
    columns = ", ".join(quoted(column.name) for column in table.columns)
    text = f'ROW({columns})::text COLLATE "C"'
    identity, copy, place = (quoted(f"seamline.{name}") for name in ("identity", "copy", "place"))
    numbered = f"{text} AS {identity}, row_number() OVER (PARTITION BY {text}) AS {copy}"
    same = f"l.{identity} = s.{identity} AND l.{copy} = s.{copy}"
    in_live, in_staged = (f"SELECT {numbered} FROM {relation}" for relation in (live, staged))
    return (
        f"DELETE FROM {live} AS t USING (SELECT {place} FROM (SELECT ctid AS {place}, {numbered} FROM {live}) AS l "
        f"WHERE NOT EXISTS (SELECT FROM ({in_staged}) AS s WHERE {same})) AS gone WHERE t.ctid = gone.{place}",
        f"INSERT INTO {live} ({columns}) SELECT {columns} FROM (SELECT {columns}, {numbered} FROM {staged}) AS s "
        f"WHERE NOT EXISTS (SELECT FROM ({in_live}) AS l WHERE {same})",
    )


def as_client_text(statement: str) -> str:
    """With the client's place holders where parameters belong; without one, the text as it is."""
    if _PARAMETER not in statement:
        return statement
    return statement.replace("%", "%%").replace(_PARAMETER, "%s")


class SpanStatements:
    """What is done with a span's rows of one table. `rows`: where they stand, with their control columns."""

    def __init__(self, table: Table, live: str, *, rows: str) -> None:
        self._table = table
        self._live = live
        self._rows = rows
        self._columns = [quoted(column.name) for column in table.columns]
        self._missing = {name: place for place, name in enumerate(unavailable_columns(table))}
        self._keys = [quoted(name) for name in table.key]

    @cached_property
    def merge(self) -> str:
        """Applies the newest change of every key; returns (kind, key, offset, total) of at most so many findings."""
        # Assigning a key column its own value when there is no other makes RETURNING speak of the row.
        rest = [column for column in self._columns if column not in self._keys] or self._columns[:1]
        assignments = ", ".join(f"{column} = {self._newest(column)}" for column in rest)
        keys = ", ".join(f"s.{column} AS key_{index}" for index, column in enumerate(self._keys))
        shown = ", ".join(f"{_literal(name)}, key_{index}" for index, name in enumerate(self._table.key))
        return as_client_text(
            f"WITH merged AS (MERGE INTO {self._live} AS t USING ({self._typed}) AS s ON {self._same_key} "
            f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(self._columns)}) "
            f"VALUES ({', '.join(f's.{column}' for column in self._columns)}) "
            f"RETURNING merge_action() AS action, s.{MET} AS met, s.{OFFSET} AS log_offset, {keys}) "
            "SELECT CASE action WHEN 'INSERT' THEN 'update met no row' ELSE 'insert met a row' END, "
            f"json_build_object({shown})::text, log_offset, count(*) OVER () "
            "FROM merged WHERE (action = 'INSERT') = met ORDER BY log_offset "
            f"LIMIT {FINDINGS_KEPT_MAX}"
        )

    def set_apart(self, images: str) -> str:
        """The newest image of every key, whole, and whether there is a row of it. Asked before `delete_touched`."""
        columns = ", ".join(self._columns)
        return as_client_text(
            f"INSERT INTO {images} ({OFFSET}, {DELETED}, {MET}, {FOUND}, {columns}) "
            f"SELECT s.{OFFSET}, s.{DELETED}, s.{MET}, t.{self._keys[0]} IS NOT NULL, "
            f"{', '.join(map(self._newest, self._columns))} "
            f"FROM ({self._typed}) AS s LEFT JOIN {self._live} AS t ON {self._same_key}"
        )

    @cached_property
    def delete_touched(self) -> str:
        return as_client_text(f"DELETE FROM {self._live} AS t USING ({self._typed}) AS s WHERE {self._same_key}")

    @cached_property
    def orphans(self) -> str:
        """How many changes lack values and meet no row that has them. Asked before the MERGE."""
        return as_client_text(
            f"SELECT count(*) FROM ({self._typed}) AS s WHERE NOT s.{DELETED} AND {_lacks('s.')} "
            f"AND NOT EXISTS (SELECT FROM {self._live} AS t WHERE {self._same_key})"
        )

    @cached_property
    def missed_deletes(self) -> str:
        """Deletes that will meet no row although the log says there was one. Asked before the MERGE."""
        shown = ", ".join(
            f"{_literal(name)}, s.{column}" for name, column in zip(self._table.key, self._keys, strict=True)
        )
        return as_client_text(
            f"SELECT 'delete met no row', json_build_object({shown})::text, s.{OFFSET}, count(*) OVER () "
            f"FROM ({self._typed}) AS s WHERE s.{DELETED} AND s.{MET} "
            f"AND NOT EXISTS (SELECT FROM {self._live} AS t WHERE {self._same_key}) "
            f"ORDER BY s.{OFFSET} LIMIT {FINDINGS_KEPT_MAX}"
        )

    @cached_property
    def insert_copies(self) -> str:
        columns = ", ".join(self._columns)
        return as_client_text(
            f"INSERT INTO {self._live} ({columns}) SELECT {columns} FROM ({self._typed}) AS s "
            f"CROSS JOIN LATERAL generate_series(1, s.{COPIES}) AS {_COPY} WHERE s.{COPIES} > 0"
        )

    @cached_property
    def wanted_removals(self) -> str:
        return as_client_text(f"SELECT coalesce(-sum({COPIES}), 0)::bigint FROM {self._rows} WHERE {COPIES} < 0")

    @cached_property
    def remove_copies(self) -> str:
        """Deletes exactly so many byte-identical rows, or as many as there are; the caller compares the number.

        The hash finds candidates in the expression index, the row text decides. Never the destination's `=`, which
        joins what a collation or a scale keeps apart.
        """
        text = row_text_expression(self._table.columns)
        return as_client_text(
            f"WITH gone AS (SELECT identity, hash, sum(copies)::bigint AS copies "
            f"FROM (SELECT {text} AS identity, {identity_hash(self._table)} AS hash, -{COPIES} AS copies "
            f"FROM ({self._typed}) AS s WHERE {COPIES} < 0) AS w GROUP BY identity, hash) "
            f"DELETE FROM {self._live} WHERE ctid = ANY (ARRAY(SELECT found.place FROM gone CROSS JOIN LATERAL "
            f"(SELECT ctid AS place FROM {self._live} WHERE {identity_hash(self._table)} = gone.hash "
            f"AND {text} = gone.identity LIMIT gone.copies) AS found))"
        )

    def _newest(self, column: str) -> str:
        """The value to store: the stored one where the log left it out."""
        if column not in self._missing:
            return f"s.{column}"
        return f"CASE WHEN {_is_missing(self._missing[column], 's.')} THEN t.{column} ELSE s.{column} END"

    @property
    def _same_key(self) -> str:
        return _same(self._keys, "t", "s")

    @property
    def _typed(self) -> str:
        control = ", ".join(_CONTROL) if self._table.is_keyed else COPIES
        columns = ", ".join(map(_typed_column, self._table.columns))
        return f"SELECT {control}, {columns} FROM {self._rows}"


def _typed_column(column: Column) -> str:
    name = quoted(column.name)
    return f"{_as_stored(column, name)} AS {name}" if column.kind is Kind.NATIVE else name


def _as_stored(column: Column, staged: str) -> str:
    """A staged value in the type of the live column."""
    return f"{staged}::{destination_type(column)}" if column.kind is Kind.NATIVE else staged


def unavailable_columns(table: Table) -> dict[str, Column]:
    """The columns whose values the log may leave out, by their quoted names, in the order of `MISSING`."""
    return {
        quoted(column.name): column
        for column in table.columns
        if column.toastable and table.is_keyed and column.name not in table.key
    }
