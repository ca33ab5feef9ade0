"""The SQL of one table: where a span's rows are staged, and how they become rows of the live table.

A session stages a span's rows of a table in one temporary table, and there it notes what it finds out about them, as
whether the live table has such a row. Making a temporary table ends no transaction.

A table without a key has three columns of its own, which `SELECT *` does not show: a number, the hash of the row, and
which copy of it this one is, from 1. So copies are taken away from the top, each by an index, however many there are.
"""

from functools import cached_property

from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.relational.dialect import OWN_PREFIX, Dialect
from seamline.sinks.relational.encode import HASH_BYTES, READ_AS
from seamline.sinks.relational.types import column_definitions, column_types

FINDINGS_KEPT_MAX = 1_000
# The number of the rest of a transaction, behind all of its chunks.
LAST_CHUNK = 2_147_483_647
OFFSET, DELETED, MET, FOUND, MISSING, CHUNK = (
    quoted(f"{OWN_PREFIX}{name}") for name in ("offset", "deleted", "met", "found", "missing", "chunk")
)
_AGE, _FIRST_MET, _TOTAL, _BEST, _NUMBER = (
    quoted(f"{OWN_PREFIX}{name}") for name in ("age", "first_met", "total", "best", "number")
)
ROW, HASH, COPY, COPIES, TOP = (quoted(f"{OWN_PREFIX}{name}") for name in ("row", "hash", "copy", "copies", "top"))


class TableStatements:
    """`database`: where the live table lies; `at`: that of the ledger, in quotes; `number` keeps the session's staging
    tables apart."""

    def __init__(self, table: Table, *, database: str, at: str, number: int, dialect: Dialect) -> None:
        self.table = table
        self.database = database
        self.live = f"{quoted(database)}.{quoted(table.name)}"
        self.staging = f"{at}.seamline_staging_{number}"
        self.chunks = f"{at}.seamline_chunks_{number}"
        # What is noted between two statements.
        self.moved = f"{at}.seamline_moved_{number}"
        self.found = f"{at}.seamline_found_{number}"
        # Whose values the log may leave out.
        self.unavailable = [c for c in table.columns if c.toastable and table.is_keyed and c.name not in table.key]
        self.columns = [quoted(column.name) for column in table.columns]
        self._dialect = dialect
        self._keys = [quoted(name) for name in table.key]
        self._old_keys = [quoted(f"{OWN_PREFIX}old.{number}") for number in range(len(table.key))]

    # ---- staging ----------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> list[str]:
        """What a document of a span's rows has, in this order."""
        if not self.table.is_keyed:
            return [HASH, COPIES, *self.columns]
        partial = [MISSING, *self._old_keys] if self.unavailable else []
        return [OFFSET, DELETED, MET, *partial, *self.columns]

    @property
    def create_staging(self) -> str:
        if self.table.is_keyed:
            own, key = f"{FOUND} boolean NOT NULL DEFAULT 0", ", ".join(self._keys)
        else:
            own, key = f"{TOP} bigint NOT NULL DEFAULT 0", HASH
        return (
            f"CREATE TEMPORARY TABLE {self.staging} ({own}, {self._definitions}, PRIMARY KEY ({key})) {self._options}"
        )

    @property
    def create_chunks(self) -> str:
        """Temporary, so that they end with the session: whoever reads the transaction again does so in another one."""
        key = ", ".join([*(self._keys or [HASH]), CHUNK])
        return (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {self.chunks} ({CHUNK} int NOT NULL, {self._definitions},"
            f" PRIMARY KEY ({key})) {self._options}"
        )

    @property
    def load_staging(self) -> str:
        return _load(self.staging, self.fields)

    def load_chunk(self, chunk: int) -> str:
        return f"{_load(self.chunks, self.fields)} SET {CHUNK} = {chunk}"

    @property
    def _options(self) -> str:
        return f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={self._dialect.collation}"

    @cached_property
    def _definitions(self) -> str:
        types = column_types(self.table, self._dialect)
        rows = [
            f"{quoted(column.name)} {types[column.name]}{' NOT NULL' if column.name in self.table.key else ' NULL'}"
            for column in self.table.columns
        ]
        if not self.table.is_keyed:
            return ", ".join([f"{HASH} binary({HASH_BYTES}) NOT NULL", f"{COPIES} bigint NOT NULL", *rows])
        control = [f"{OFFSET} bigint NOT NULL", f"{DELETED} boolean NOT NULL", f"{MET} boolean"]
        if self.unavailable:
            control.append(f"{MISSING} varbinary({len(self.unavailable)}) NOT NULL")
            named = zip(self._old_keys, self.table.key, strict=True)
            control += [f"{old} {types[name]} NULL" for old, name in named]
        return ", ".join([*control, *rows])

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def gather_chunks(self, first: int) -> str:
        """Chunks from `first` on → the staging table: the newest change of a key, with what its first one expected to
        meet; the sum of the copies of a row."""
        chunks = f"{self.chunks} WHERE {CHUNK} >= {first}"
        if not self.table.is_keyed:
            copies = f"SUM({COPIES}) OVER (PARTITION BY {HASH}) AS {_TOTAL}"
            age = f"ROW_NUMBER() OVER (PARTITION BY {HASH} ORDER BY {CHUNK}) AS {_AGE}"
            columns = ", ".join([HASH, *self.columns])
            return (
                f"INSERT INTO {self.staging} ({columns}, {COPIES}) SELECT {columns}, {_TOTAL} FROM"
                f" (SELECT {columns}, {copies}, {age} FROM {chunks}) AS p WHERE {_AGE} = 1 AND {_TOTAL} <> 0"
            )
        window = f"OVER (PARTITION BY {', '.join(self._keys)} ORDER BY {CHUNK}"
        fields = [field for field in self.fields if field != MET]
        return (
            f"INSERT INTO {self.staging} ({', '.join(fields)}, {MET}) SELECT {', '.join(fields)}, {_FIRST_MET} FROM ("
            f"SELECT {', '.join(fields)}, FIRST_VALUE({MET}) {window}) AS {_FIRST_MET},"
            f" ROW_NUMBER() {window} DESC) AS {_AGE} FROM {chunks}) AS p WHERE {_AGE} = 1"
        )

    def fill_from_chunks(self, column: Column, first: int) -> list[str]:
        """A value that the newest change of a key left out is that of the newest chunk from `first` on that has it."""
        keys = ", ".join(f"p.{key}" for key in self._keys)
        best = (
            f"SELECT {keys}, MAX(p.{CHUNK}) AS {_BEST} FROM {self.chunks} AS p"
            f" JOIN {self.staging} AS s ON {_same(self._keys, 's', 'p')}"
            f" WHERE NOT s.{DELETED} AND {self._is_missing(column, 's')}"
            f" AND NOT p.{DELETED} AND NOT {self._is_missing(column, 'p')} AND p.{CHUNK} >= {first} GROUP BY {keys}"
        )
        return [
            *self._noted(self.found, best),
            f"UPDATE {self.staging} AS s JOIN {self.found} AS b ON {_same(self._keys, 's', 'b')}"
            f" JOIN {self.chunks} AS p ON {_same(self._keys, 'p', 'b')} AND p.{CHUNK} = b.{_BEST}"
            f" SET s.{quoted(column.name)} = p.{quoted(column.name)}, {self._mark_filled(column, 's')}",
        ]

    def lacks_values(self, column: Column) -> str:
        """Whether a row that was gathered lacks this column's value."""
        return f"SELECT 1 FROM {self.staging} AS s WHERE NOT s.{DELETED} AND {self._is_missing(column, 's')} LIMIT 1"

    def fill_moved_from_chunks(self, column: Column, chunk: int) -> list[str]:
        """Of the rows of this chunk that have changed their key: a value that was left out is that of the newest older
        chunk that has it under the old key, and came after the last delete there."""
        name = quoted(column.name)
        keys = ", ".join(f"w.{key}" for key in self._keys)
        age = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY p.{CHUNK} DESC)"
        older = (
            f"SELECT {keys}, p.{name}, p.{DELETED}, {age} AS {_AGE} FROM {self.moved} AS w JOIN {self.chunks} AS p"
            f" ON {self._old_is('p', 'w')} AND p.{CHUNK} < {chunk}"
            f" WHERE p.{DELETED} OR NOT {self._is_missing(column, 'p')}"
        )
        newest = f"SELECT {', '.join([*self._keys, name])} FROM ({older}) AS o WHERE o.{_AGE} = 1 AND NOT o.{DELETED}"
        return [
            *self._noted(self.moved, self._moved_of(chunk, self._is_missing(column, "w"))),
            *self._noted(self.found, newest),
            f"UPDATE {self.chunks} AS w JOIN {self.found} AS b ON {_same(self._keys, 'w', 'b')}"
            f" SET w.{name} = b.{name}, {self._mark_filled(column, 'w')} WHERE w.{CHUNK} = {chunk}",
        ]

    def fill_moved_from_live(self, chunk: int) -> list[str]:
        """What they lack then is that of the live row under the old key, unless an older chunk deletes it."""
        return [
            *self._noted(self.moved, self._moved_of(chunk, self._lacks("w"))),
            f"DELETE {self.moved} FROM {self.moved} JOIN {self.chunks} AS p"
            f" ON {self._old_is('p', self.moved)} AND p.{CHUNK} < {chunk} AND p.{DELETED}",
            f"UPDATE {self.chunks} AS w JOIN {self.moved} AS m ON {_same(self._keys, 'w', 'm')}"
            f" JOIN {self.live} AS t ON {self._old_is('t', 'm')} SET {self._taken('w')} WHERE w.{CHUNK} = {chunk}",
        ]

    def _moved_of(self, chunk: int, lacking: str) -> str:
        """Keys of the rows of this chunk that have changed them, old and new."""
        return (
            f"SELECT {', '.join([*self._keys, *self._old_keys])} FROM {self.chunks} AS w WHERE w.{CHUNK} = {chunk}"
            f" AND w.{self._old_keys[0]} IS NOT NULL AND NOT w.{DELETED} AND {lacking}"
        )

    def _noted(self, place: str, rows: str) -> list[str]:
        """These rows in a temporary table of their own: in MySQL a statement may name a temporary table once."""
        key = f"PRIMARY KEY ({', '.join(self._keys)})"
        return [
            f"DROP TEMPORARY TABLE IF EXISTS {place}",
            f"CREATE TEMPORARY TABLE {place} ({key}) {self._options} AS {rows}",
        ]

    def moved_orphans(self, chunk: int) -> str:
        """How many of them lack values still."""
        return (
            f"SELECT COUNT(*) FROM {self.chunks} AS w WHERE w.{CHUNK} = {chunk} AND w.{self._old_keys[0]} IS NOT NULL"
            f" AND NOT w.{DELETED} AND {self._lacks('w')}"
        )

    # ---- keyed ------------------------------------------------------------------------------------------------------

    @cached_property
    def find(self) -> str:
        """Notes which staged rows the live table has. Each is looked up by its key; nothing else is ever right."""
        return (
            f"UPDATE {self.staging} AS s STRAIGHT_JOIN {self.live} AS t ON {_same(self._keys, 't', 's')}"
            f" SET s.{FOUND} = 1"
        )

    @property
    def fill_from_live(self) -> list[str]:
        """What the log left out is what the live row has: under the old key where it changed, else under its own."""
        lacking = f"NOT s.{DELETED} AND {self._lacks('s')}"
        moved = f"s.{self._old_keys[0]} IS NOT NULL"
        return [
            f"UPDATE {self.staging} AS s STRAIGHT_JOIN {self.live} AS t ON {same} SET {self._taken('s')}"
            f" WHERE {lacking} AND {which}"
            for same, which in (
                (self._old_is("t", "s"), moved),
                (_same(self._keys, "t", "s"), f"NOT ({moved})"),
            )
        ]

    @property
    def orphans(self) -> str:
        """How many changes lack values that no row has."""
        return f"SELECT COUNT(*) FROM {self.staging} AS s WHERE NOT s.{DELETED} AND {self._lacks('s')}"

    @cached_property
    def findings(self) -> str:
        """(kind, key, offset, total) of at most so many. Asked after `find`."""
        kind = f"IF({FOUND}, 'insert met a row', IF({DELETED}, 'delete met no row', 'update met no row'))"
        shown = ", ".join(
            f"{text_literal(column.name)}, {_shown(column, self._dialect)}" for column in self.table.key_columns
        )
        return (
            f"SELECT {kind}, JSON_OBJECT({shown}), {OFFSET}, COUNT(*) OVER () FROM {self.staging}"
            f" WHERE {FOUND} <> {MET} ORDER BY {OFFSET} LIMIT {FINDINGS_KEPT_MAX}"
        )

    @cached_property
    def delete_deleted(self) -> str:
        return self._delete(f"s.{DELETED} AND s.{FOUND}")

    @cached_property
    def update_found(self) -> str:
        """ "" where the key is all there is."""
        rest = [column for column in self.columns if column not in self._keys]
        if not rest:
            return ""
        return (
            f"UPDATE {self.staging} AS s STRAIGHT_JOIN {self.live} AS t ON {_same(self._keys, 't', 's')}"
            f" SET {', '.join(f't.{column} = s.{column}' for column in rest)} WHERE s.{FOUND} AND NOT s.{DELETED}"
        )

    @cached_property
    def insert_new(self) -> str:
        return self._insert(f"NOT {FOUND} AND NOT {DELETED}")

    @property
    def delete_touched(self) -> str:
        return self._delete(f"s.{FOUND}")

    @property
    def insert_all(self) -> str:
        return self._insert(f"NOT {DELETED}")

    def _delete(self, which: str) -> str:
        # Under another name than its own, the table would be looked for in the session's database, which has none.
        return (
            f"DELETE {self.live} FROM {self.staging} AS s STRAIGHT_JOIN {self.live}"
            f" ON {_same(self._keys, self.live, 's')} WHERE {which}"
        )

    def _insert(self, which: str) -> str:
        columns = ", ".join(self.columns)
        return f"INSERT INTO {self.live} ({columns}) SELECT {columns} FROM {self.staging} WHERE {which}"

    # ---- keyless ----------------------------------------------------------------------------------------------------

    @cached_property
    def find_top(self) -> str:
        """Notes the number of the last copy of each row."""
        return (
            f"UPDATE {self.staging} AS s SET s.{TOP} = COALESCE((SELECT t.{COPY} FROM {self.live} AS t"
            f" WHERE t.{HASH} = s.{HASH} ORDER BY t.{COPY} DESC LIMIT 1), 0)"
        )

    @property
    def most_copies(self) -> str:
        """How many are added of one row at most, and how many are removed of all."""
        return (
            f"SELECT COALESCE(MAX({COPIES}), 0), CAST(COALESCE(SUM(IF({COPIES} < 0, -{COPIES}, 0)), 0) AS SIGNED)"
            f" FROM {self.staging}"
        )

    def insert_copies(self, most: int) -> str:
        columns, values = ", ".join(self.columns), ", ".join(f"s.{column}" for column in self.columns)
        count = f"SELECT 1 AS {_NUMBER} UNION ALL SELECT {_NUMBER} + 1 FROM c WHERE {_NUMBER} < {most}"
        numbers = f"(WITH RECURSIVE c AS ({count}) SELECT {_NUMBER} FROM c)"
        return (
            f"INSERT INTO {self.live} ({columns}, {HASH}, {COPY}) SELECT {values}, s.{HASH}, s.{TOP} + n.{_NUMBER}"
            f" FROM {self.staging} AS s JOIN {numbers} AS n ON n.{_NUMBER} <= s.{COPIES} WHERE s.{COPIES} > 0"
        )

    @property
    def remove_copies(self) -> str:
        """Deletes the last ones, or as many as there are; the caller compares the number."""
        return (
            f"DELETE {self.live} FROM {self.staging} AS s STRAIGHT_JOIN {self.live}"
            f" ON {self.live}.{HASH} = s.{HASH} AND {self.live}.{COPY} > s.{TOP} + s.{COPIES} WHERE s.{COPIES} < 0"
        )

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _is_missing(self, column: Column, of: str) -> str:
        return f"SUBSTR({of}.{MISSING}, {self.unavailable.index(column) + 1}, 1) = '1'"

    def _lacks(self, of: str) -> str:
        return f"LOCATE('1', {of}.{MISSING}) > 0"

    def _mark_filled(self, column: Column, of: str) -> str:
        return f"{of}.{MISSING} = INSERT({of}.{MISSING}, {self.unavailable.index(column) + 1}, 1, '0')"

    def _taken(self, of: str) -> str:
        """Every value that a row lacks, taken from `t`; last the mark, by which it is known that it lacked them."""
        values = [
            f"{of}.{name} = IF({self._is_missing(column, of)}, t.{name}, {of}.{name})"
            for column, name in ((column, quoted(column.name)) for column in self.unavailable)
        ]
        return ", ".join([*values, f"{of}.{MISSING} = '{'0' * len(self.unavailable)}'"])

    def _old_is(self, one: str, moved: str) -> str:
        """That the row has the key that a moved one had."""
        pairs = zip(self._keys, self._old_keys, strict=True)
        return " AND ".join(f"{one}.{key} = {moved}.{old}" for key, old in pairs)


def create_table(place: str, table: Table, dialect: Dialect, *, what: str = "TABLE") -> str:
    """A live or staged table; `what` may be TEMPORARY TABLE. One without a key gets its index by `copies_index`, once
    it is loaded."""
    own = (
        f"PRIMARY KEY ({', '.join(quoted(name) for name in table.key)})"
        if table.is_keyed
        else f"{ROW} bigint unsigned NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY,"
        f" {HASH} binary({HASH_BYTES}) DEFAULT NULL INVISIBLE, {COPY} bigint DEFAULT NULL INVISIBLE"
    )
    return (
        f"CREATE {what} {place} ({column_definitions(table, dialect)}, {own})"
        f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={dialect.collation} ROW_FORMAT=DYNAMIC"
    )


def load_table(place: str, table: Table) -> str:
    """LOAD DATA of whole rows; of a table without a key, their hashes first, and each as the first of its copies."""
    columns = [quoted(column.name) for column in table.columns]
    return _load(place, columns) if table.is_keyed else f"{_load(place, [HASH, *columns])} SET {COPY} = 1"


def copies_index(place: str) -> str:
    return f"ALTER TABLE {place} ADD KEY {quoted(f'{OWN_PREFIX}copies')} ({HASH}, {COPY})"


def number_copies(place: str) -> str:
    """Gives the rows of which there are several the number of their copy, by the index: most tables have few such."""
    several = f"SELECT {HASH} FROM {place} GROUP BY {HASH} HAVING COUNT(*) > 1"
    numbered = (
        f"SELECT r.{ROW} AS place, ROW_NUMBER() OVER (PARTITION BY r.{HASH} ORDER BY r.{ROW}) AS number"
        f" FROM ({several}) AS d STRAIGHT_JOIN {place} AS r ON r.{HASH} = d.{HASH}"
    )
    return f"UPDATE ({numbered}) AS n STRAIGHT_JOIN {place} AS t ON t.{ROW} = n.place SET t.{COPY} = n.number"


def _load(place: str, fields: list[str]) -> str:
    return f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {place} {READ_AS} ({', '.join(fields)})"


def _same(keys: list[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{key} = {other}.{key}" for key in keys)


def _shown(column: Column, dialect: Dialect) -> str:
    name = quoted(column.name)
    if column.kind is Kind.UUID:
        return dialect.texts.uuid.format(name=name)
    return f"LOWER(HEX({name}))" if column.kind in (Kind.BINARY, Kind.BYTES) else name
