"""The SQL of one table's part of a span: staging table, the MERGE of keyed tables, the multiset steps of keyless ones.

The span's wire forms stand in a temporary table; every statement reads them through a subquery that casts them to
their stored types, so all statements see one and the same row.
"""

from functools import cached_property

from seamline.adapters.postgres.canonical import quoted, row_text_expression
from seamline.adapters.postgres.types import cast_expression, staging_definitions
from seamline.domain.catalogue import Table

# A dot keeps these apart from any column a person would name.
OFFSET = quoted("seamline.offset")
DELETED = quoted("seamline.deleted")
MET = quoted("seamline.met")
COPIES = quoted("seamline.copies")
PIECE = quoted("seamline.piece")
FINDINGS_KEPT_MAX = 1000


class TableStatements:
    """All texts for one live table. `number` keeps the names of its staging and prepared statements short and apart."""

    def __init__(self, table: Table, *, schema: str, number: int) -> None:
        self.table = table
        self.live = f"{quoted(schema)}.{quoted(table.name)}"
        self.staging = f"pg_temp.seamline_staging_{number}"
        self.number = number
        self._columns = [quoted(column.name) for column in table.columns]
        self.control = f"{OFFSET} bigint, {DELETED} boolean, {MET} boolean" if table.is_keyed else f"{COPIES} bigint"

    @property
    def create_staging(self) -> str:
        definitions = f"{self.control}, {staging_definitions(self.table.columns)}"
        return f"CREATE TEMPORARY TABLE seamline_staging_{self.number} ({definitions}) ON COMMIT DELETE ROWS"

    def copy_into(self, place: str) -> str:
        """COPY of a whole batch; into a table of pieces it goes as the last one, by the column's default."""
        control = f"{OFFSET}, {DELETED}, {MET}" if self.table.is_keyed else COPIES
        return f"COPY {place} ({control}, {', '.join(self._columns)}) FROM STDIN (FORMAT csv)"

    def copy_piece_into(self, place: str) -> str:
        return f"COPY {place} FROM STDIN (FORMAT csv)"

    # ---- keyed ----------------------------------------------------------------------------------------------------

    @cached_property
    def merge(self) -> str:
        """Applies the newest change of every key; returns (kind, key, offset, total) of at most so many findings."""
        table = self.table
        key = self._key_equality("t", "s")
        rest = [column for column in self._columns if column not in self._key_columns] or self._columns[:1]
        # Assigning a key column its own value when there is no other makes RETURNING speak of the row.
        assignments = ", ".join(f"{column} = s.{column}" for column in rest)
        keys = ", ".join(f"s.{column} AS key_{index}" for index, column in enumerate(self._key_columns))
        shown = ", ".join(
            f"'{name.replace(chr(39), chr(39) * 2)}', key_{index}" for index, name in enumerate(table.key)
        )
        return (
            f"WITH merged AS (MERGE INTO {self.live} AS t USING ({self._typed(self.staging)}) AS s ON {key} "
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

    @cached_property
    def missed_deletes(self) -> str:
        """Deletes that will meet no row although the log says there was one. Asked before the MERGE."""
        shown = ", ".join(
            f"'{name.replace(chr(39), chr(39) * 2)}', s.{column}"
            for name, column in zip(self.table.key, self._key_columns, strict=True)
        )
        return (
            f"SELECT 'delete met no row', json_build_object({shown})::text, s.{OFFSET}, count(*) OVER () "
            f"FROM ({self._typed(self.staging)}) AS s WHERE s.{DELETED} AND s.{MET} "
            f"AND NOT EXISTS (SELECT FROM {self.live} AS t WHERE {self._key_equality('t', 's')}) "
            f"ORDER BY s.{OFFSET} LIMIT {FINDINGS_KEPT_MAX}"
        )

    # ---- keyless --------------------------------------------------------------------------------------------------

    @cached_property
    def insert_copies(self) -> str:
        columns = ", ".join(self._columns)
        return (
            f"INSERT INTO {self.live} ({columns}) SELECT {columns} FROM ({self._typed(self.staging)}) AS s "
            f"CROSS JOIN LATERAL generate_series(1, s.{COPIES}) WHERE s.{COPIES} > 0"
        )

    @cached_property
    def wanted_removals(self) -> str:
        return f"SELECT coalesce(-sum({COPIES}), 0)::bigint FROM {self.staging} WHERE {COPIES} < 0"

    @cached_property
    def remove_copies(self) -> str:
        """Deletes exactly so many byte-identical rows, or as many as there are; the caller compares the number.

        The hash finds candidates in the expression index, the row text decides. Never the destination's `=`, which
        joins what a collation or a scale tells apart.
        """
        text = row_text_expression(self.table.columns)
        return (
            f"WITH gone AS (SELECT identity, hashtextextended(identity, 0) AS hash, sum(copies)::bigint AS copies "
            f"FROM (SELECT {text} AS identity, -{COPIES} AS copies FROM ({self._typed(self.staging)}) AS s "
            f"WHERE {COPIES} < 0) AS w GROUP BY identity) "
            f"DELETE FROM {self.live} WHERE ctid = ANY (ARRAY(SELECT found.place FROM gone CROSS JOIN LATERAL "
            f"(SELECT ctid AS place FROM {self.live} WHERE {self.identity_hash} = gone.hash AND {text} = gone.identity "
            "LIMIT gone.copies) AS found))"
        )

    @cached_property
    def identity_hash(self) -> str:
        return f"hashtextextended({row_text_expression(self.table.columns)}, 0)"

    def identity_index(self, relation: str) -> str:
        """With it a removal costs what it removes, not what the table holds."""
        return f"CREATE INDEX ON {relation} ({self.identity_hash})"

    # ---- pieces ---------------------------------------------------------------------------------------------------

    def create_pieces(self, place: str) -> str:
        return (
            f"CREATE UNLOGGED TABLE IF NOT EXISTS {place} "
            f"({PIECE} integer DEFAULT {2**31 - 1}, {self.control}, {staging_definitions(self.table.columns)})"
        )

    def gather_pieces(self, place: str) -> str:
        """All pieces → the staging table: the newest change of a key, with what its first one expected to meet."""
        columns = ", ".join(self._columns)
        if not self.table.is_keyed:
            return f"INSERT INTO {self.staging} SELECT {COPIES}, {columns} FROM {place}"
        keys = ", ".join(self._key_columns)
        return (
            f"INSERT INTO {self.staging} SELECT {OFFSET}, {DELETED}, first_met, {columns} FROM ("
            f"SELECT *, first_value({MET}) OVER (PARTITION BY {keys} ORDER BY {PIECE}) AS first_met, "
            f"row_number() OVER (PARTITION BY {keys} ORDER BY {PIECE} DESC) AS age FROM {place}) AS p WHERE age = 1"
        )

    # ---- shared ---------------------------------------------------------------------------------------------------

    @property
    def _key_columns(self) -> list[str]:
        return [quoted(name) for name in self.table.key]

    def _key_equality(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.{column} = {right}.{column}" for column in self._key_columns)

    def _typed(self, place: str) -> str:
        control = f"{OFFSET}, {DELETED}, {MET}" if self.table.is_keyed else COPIES
        columns = ", ".join(
            f"{cast_expression(column, of=quoted(column.name))} AS {quoted(column.name)}"
            for column in self.table.columns
        )
        return f"SELECT {control}, {columns} FROM {place}"
