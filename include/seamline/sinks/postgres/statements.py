"""The SQL of one table's part of a span: staging table, the MERGE of keyed tables, the multiset steps of keyless ones.

The span's rows come in their wire forms, either from a temporary table that COPY filled or, where there are few, as one
JSON parameter of the statement itself. Every statement reads them through one subquery, so all statements see one and
the same row.
"""

from functools import cached_property

from seamline.databases.postgres.canonical import may_be_indexed, quoted, row_text_expression
from seamline.domain.catalogue import Column, Table
from seamline.sinks.postgres.wire import WireForms

# A dot keeps these apart from any column a person would name; preflight refuses one that begins so.
OWN_PREFIX = "seamline."
OFFSET_FIELD, DELETED_FIELD, MET_FIELD, COPIES_FIELD = (
    "seamline.offset",
    "seamline.deleted",
    "seamline.met",
    "seamline.copies",
)
OFFSET, DELETED, MET, COPIES = map(quoted, (OFFSET_FIELD, DELETED_FIELD, MET_FIELD, COPIES_FIELD))
CHUNK, FOUND = quoted("seamline.chunk"), quoted("seamline.found")
_FIRST_MET, _AGE, _COPY = quoted("seamline.first_met"), quoted("seamline.age"), quoted("seamline.copy")
# Where the rest of a transaction stands behind its chunks.
LAST_CHUNK = 2**31 - 1
FINDINGS_KEPT_MAX = 1000
# Stands for the JSON parameter while percent signs of names are doubled for the client.
JSON_PARAMETER = "\0"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class TableStatements:
    """All texts for one live table. `number` keeps the names of its staging tables short and apart."""

    def __init__(self, table: Table, *, schema: str, number: int, wire: WireForms) -> None:
        self.table = table
        self.schema = schema
        self.number = number
        self.wire = wire
        self.unavailable = unavailable_columns(table)
        self.live = f"{quoted(schema)}.{quoted(table.name)}"
        self.staging = f"pg_temp.seamline_staging_{number}"
        self.images = f"pg_temp.seamline_images_{number}"
        self.chunks = f"pg_temp.seamline_chunks_{number}"
        control = f"{OFFSET} bigint, {DELETED} boolean, {MET} boolean" if table.is_keyed else f"{COPIES} bigint"
        self._definitions = f"{control}, {wire.staging_definitions(table.columns)}"
        columns = ", ".join(quoted(column.name) for column in table.columns)
        self._fields = f"{OFFSET}, {DELETED}, {MET}, {columns}" if table.is_keyed else f"{COPIES}, {columns}"
        self._from_json = f"json_to_recordset({JSON_PARAMETER}::json) AS w({self._definitions})"
        self.staged = SpanStatements(table, self.live, rows=self.staging, wire=wire)
        self.sent = SpanStatements(table, self.live, rows=self._from_json, wire=wire)

    @property
    def create_staging(self) -> str:
        return f"CREATE TEMPORARY TABLE seamline_staging_{self.number} ({self._definitions}) ON COMMIT DELETE ROWS"

    def copy_into(self, place: str) -> str:
        """COPY of a whole batch; into a table of chunks it goes as the last one, by the column's default."""
        return f"COPY {place} ({self._fields}) FROM STDIN (FORMAT csv)"

    def insert_into(self, place: str) -> str:
        """As `copy_into`, for a batch that comes as the JSON parameter."""
        statement = f"INSERT INTO {place} ({self._fields}) SELECT {self._fields} FROM {self._from_json}"
        return as_client_text(statement)

    # ---- delete-insert ---------------------------------------------------------------------------------------------

    @property
    def create_images(self) -> str:
        """Where the newest images stand while the live rows are away. Nullable: a delete has only its key."""
        columns = ", ".join(quoted(column.name) for column in self.table.columns)
        return (
            f"CREATE TEMPORARY TABLE seamline_images_{self.number} ON COMMIT DROP AS SELECT 0::bigint AS {OFFSET}, "
            f"false AS {DELETED}, false AS {MET}, false AS {FOUND}, {columns} FROM {self.live} WITH NO DATA"
        )

    @property
    def insert_images(self) -> str:
        columns = ", ".join(quoted(column.name) for column in self.table.columns)
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
        return f"COPY {self.chunks} ({CHUNK}, {self._fields}) FROM STDIN (FORMAT csv)"

    def gather_chunks(self, *, first: int = 0) -> str:
        """Chunks from `first` on → the staging table: the newest change of a key, with what its first one expected to
        meet."""
        chunks = f"{self.chunks} WHERE {CHUNK} >= {first}"
        columns = ", ".join(quoted(column.name) for column in self.table.columns)
        if not self.table.is_keyed:
            return f"INSERT INTO {self.staging} SELECT {COPIES}, {columns} FROM {chunks}"
        window = f"OVER (PARTITION BY {', '.join(quoted(name) for name in self.table.key)} ORDER BY {CHUNK}"
        return (
            f"INSERT INTO {self.staging} ({OFFSET}, {DELETED}, {MET}, {columns}) "
            f"SELECT {OFFSET}, {DELETED}, {_FIRST_MET}, {columns} FROM ("
            f"SELECT *, first_value({MET}) {window}) AS {_FIRST_MET}, "
            f"row_number() {window} DESC) AS {_AGE} FROM {chunks}) AS p WHERE {_AGE} = 1"
        )

    @property
    def lacking_columns(self) -> list[Column]:
        """Those whose values the log may have left out of what was gathered, in the order of `lacks_values`."""
        return [column for column in self.table.columns if column.toastable and column.name not in self.table.key]

    @property
    def lacks_values(self) -> str:
        """Whether some row that was gathered lacks a value, by column."""
        asked = ", ".join(
            f"coalesce(bool_or({self._is_unavailable(column)}), false)" for column in self.lacking_columns
        )
        return f"SELECT {asked} FROM {self.staging} WHERE NOT {DELETED}"

    def fill_from_chunks(self, column: Column, *, first: int = 0) -> str:
        """A value that the newest change of a key left out is that of the newest chunk from `first` on that has it."""
        name = quoted(column.name)
        keys = [quoted(key) for key in self.table.key]
        same = " AND ".join(f"s.{key} = p.{key}" for key in keys)
        lacks = f"NOT s.{DELETED} AND {self._is_unavailable(column, of='s.')}"
        own = ", ".join(f"p.{key}" for key in keys)
        return (
            f"UPDATE {self.staging} AS s SET {name} = p.{name} FROM ("
            f"SELECT DISTINCT ON ({own}) {own}, p.{name} FROM {self.chunks} AS p JOIN {self.staging} AS s ON {same} "
            f"WHERE {lacks} AND NOT {self._is_unavailable(column, of='p.')} AND p.{CHUNK} >= {first} "
            f"ORDER BY {own}, p.{CHUNK} DESC) AS p WHERE {same} AND {lacks}"
        )

    def _is_unavailable(self, column: Column, *, of: str = "") -> str:
        return is_unavailable(column, self.wire, of=f"{of}{quoted(column.name)}")


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
    """With the client's place holder where the JSON parameter belongs; without one, the text as it is."""
    if JSON_PARAMETER not in statement:
        return statement
    return statement.replace("%", "%%").replace(JSON_PARAMETER, "%s")


class SpanStatements:
    """What is done with a span's rows of one table. `rows`: where they stand, with their control columns."""

    def __init__(self, table: Table, live: str, *, rows: str, wire: WireForms) -> None:
        self._table = table
        self._live = live
        self._rows = rows
        self._wire = wire
        self._columns = [quoted(column.name) for column in table.columns]
        self._unavailable = unavailable_columns(table)
        self._keys = [quoted(name) for name in table.key]

    @cached_property
    def merge(self) -> str:
        """Applies the newest change of every key; returns (kind, key, offset, total) of at most so many findings."""
        # Assigning a key column its own value when there is no other makes RETURNING speak of the row.
        rest = [column for column in self._columns if column not in self._keys] or self._columns[:1]
        assignments = ", ".join(f"{column} = {self._newest(column)}" for column in rest)
        keys = ", ".join(f"{self._value(column)} AS key_{index}" for index, column in enumerate(self._keys))
        shown = ", ".join(f"{_literal(name)}, key_{index}" for index, name in enumerate(self._table.key))
        return as_client_text(
            f"WITH merged AS (MERGE INTO {self._live} AS t USING ({self._typed}) AS s ON {self._same_key} "
            f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(self._columns)}) "
            f"VALUES ({', '.join(map(self._value, self._columns))}) "
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
        lacking = " OR ".join(map(self._is_unavailable, self._unavailable)) or "false"
        return as_client_text(
            f"SELECT count(*) FROM ({self._typed}) AS s WHERE NOT s.{DELETED} AND ({lacking}) "
            f"AND NOT EXISTS (SELECT FROM {self._live} AS t WHERE {self._same_key})"
        )

    @cached_property
    def missed_deletes(self) -> str:
        """Deletes that will meet no row although the log says there was one. Asked before the MERGE."""
        shown = ", ".join(
            f"{_literal(name)}, {self._value(column)}" for name, column in zip(self._table.key, self._keys, strict=True)
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
        return self._value(column, otherwise=f"t.{column}")

    def _value(self, column: str, *, otherwise: str = "NULL") -> str:
        """The value that a row of `s` brings, and `otherwise` where the log left it out."""
        if column not in self._unavailable:
            return f"s.{column}"
        cast = self._wire.cast(self._unavailable[column], of=f"s.{column}")
        return f"CASE WHEN {self._is_unavailable(column)} THEN {otherwise} ELSE {cast} END"

    def _is_unavailable(self, column: str) -> str:
        return is_unavailable(self._unavailable[column], self._wire, of=f"s.{column}")

    @property
    def _same_key(self) -> str:
        return " AND ".join(f"t.{column} = {self._value(column)}" for column in self._keys)

    @property
    def _typed(self) -> str:
        control = f"{OFFSET}, {DELETED}, {MET}" if self._table.is_keyed else COPIES
        columns = ", ".join(map(self._typed_column, self._table.columns))
        return f"SELECT {control}, {columns} FROM {self._rows}"

    def _typed_column(self, column: Column) -> str:
        """The stored value; of a column that the log may leave out still its wire form, from which `_value` makes it. A
        second column that says whether it did is one too many for a table of 900: a target list has 1,664 entries."""
        name = quoted(column.name)
        return name if name in self._unavailable else f"{self._wire.cast(column, of=name)} AS {name}"


def is_unavailable(column: Column, wire: WireForms, *, of: str) -> str:
    """Whether the wire form `of` says that the log left the value out; false for NULL."""
    return f"coalesce({of}={_literal(wire.unavailable(column))},false)"


def unavailable_columns(table: Table) -> dict[str, Column]:
    """The columns whose values the log may leave out, by their quoted names."""
    return {quoted(column.name): column for column in table.columns if column.toastable and table.is_keyed}
