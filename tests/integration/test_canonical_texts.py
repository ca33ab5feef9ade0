"""The same value gives the same canonical text and digest in Python, MariaDB and PostgreSQL."""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import canonical_expression
from seamline.databases.postgres.read import SESSION_SETTINGS, PostgresReadView, Relation, open_views
from seamline.databases.postgres.types import column_definitions
from seamline.domain.canonical import bucket_of, canonical_row, canonical_text, digest_of, field_text, row_hash
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict
from seamline.domain.measure import Measure
from seamline.ports import ReadView
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sync.bucket_search import key_ranges
from seamline.values.build import batch_of
from seamline.values.totals import GroupTotals
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.kinds import CASES, LENIENT, KindCase

RUN_KEY = "a 'key' with \\ and %s"
_NOWHERE = BinlogPosition("0-1-1")
_FLOATS = Table(
    "floats",
    (
        Column("id", Kind.INTEGER, "int", nullable=False, length=32),
        Column("f", Kind.FLOAT, "float"),
        Column("d", Kind.DOUBLE, "double"),
    ),
    ("id",),
)
_FLOAT_VALUES = ("0.1e0", "-0e0", "16777217", "3.4e38", "0.333333333333e0")
_DOUBLE_VALUES = ("0.1", "5e-324", "1.7976931348623157e308", "1e20")


@pytest.fixture(scope="module")
def source() -> Iterator[Connection]:
    with mariadb_database("snap_canonical") as connection:
        session = mariadb(connection)
        with session.cursor() as cursor:
            for case in CASES:
                cursor.execute(f"CREATE TABLE {case.table.name} (id INT PRIMARY KEY, v {case.mariadb_type})")
                for number, literal in enumerate(["NULL", *(edge.mariadb for edge in case.edges)]):
                    cursor.execute(f"{LENIENT} INSERT INTO {case.table.name} VALUES ({number}, {literal})")
            cursor.execute("CREATE TABLE floats (id INT PRIMARY KEY, f FLOAT, d DOUBLE)")
            for number, value in enumerate(_FLOAT_VALUES):
                cursor.execute(f"INSERT INTO floats VALUES ({number}, {value}, NULL)")
            for number, value in enumerate(_DOUBLE_VALUES, 100):
                cursor.execute(f"INSERT INTO floats VALUES ({number}, NULL, {value})")
        session.close()
        yield connection


@pytest.fixture(scope="module")
def destination() -> Iterator[Connection]:
    with postgres_database("snap_canonical") as connection:
        with postgres(connection) as session:
            for case in CASES:
                table = _named_v(case)
                session.execute(f"CREATE TABLE public.{table.name} ({column_definitions(table)})")
                literals = [edge.postgres or edge.mariadb for edge in case.edges]
                for number, literal in enumerate(["NULL", *literals]):
                    session.execute(f"INSERT INTO public.{table.name} VALUES ({number}, {literal})")
            session.execute("CREATE TABLE public.floats (id int, f real, d float8)")
            for number, value in enumerate(_FLOAT_VALUES):
                session.execute(f"INSERT INTO public.floats VALUES ({number}, {value}, NULL)")
            for number, value in enumerate(_DOUBLE_VALUES, 100):
                session.execute(f"INSERT INTO public.floats VALUES ({number}, NULL, {value})")
        yield connection


def _named_v(case: KindCase) -> Table:
    """The case's table with its column named `v`."""
    definition = case.column
    column = Column(
        "v", definition.kind, definition.source_type, True, definition.length, definition.precision, definition.scale
    )
    return Table(case.table.name, (case.table.columns[0], column), ("id",))


@pytest.fixture(scope="module")
def views(source: Connection, destination: Connection) -> Iterator[tuple[ReadView, ReadView]]:
    tables = [*(_named_v(case) for case in CASES), _FLOATS]
    relations = {table.name: Relation("public", table.name) for table in tables}
    session = open_session(source)
    left = MariaDbReadView(
        session, database=source.database, tables=tables, position=_NOWHERE, opened_at=datetime.now(UTC)
    )
    (right,) = open_views(destination, tables=tables, relations=relations, count=1, position_of=lambda _: _NOWHERE)
    yield left, right
    left.close()
    right.close()


@pytest.mark.parametrize("case", CASES, ids=[case.column.name for case in CASES])
def test_a_value_has_one_text_and_one_digest_everywhere(case: KindCase, views: tuple[ReadView, ReadView]) -> None:
    table = _named_v(case)
    rows = [{"id": n, "v": value} for n, value in enumerate([None, *(edge.value for edge in case.edges)])]
    texts = {str(row["id"]): canonical_row(table, row) for row in rows}
    hashes = {key: row_hash(text, run_key=RUN_KEY) for key, text in texts.items()}
    for view in views:
        answered = view.rows(table.name, list(texts))
        shown = {key: ",".join([key, _field(table, row["v"])]) for key, row in answered.items()}
        assert shown == texts
        assert {row.key: row.hash for row in view.row_hashes(Segment(table.name), run_key=RUN_KEY)} == hashes
        digests = view.digests(Segment(table.name), run_key=RUN_KEY)
        assert digests == {0: digest_of(texts.values(), run_key=RUN_KEY)}


def _field(table: Table, text: str | None) -> str:
    return field_text(table.column("v"), text)


@pytest.mark.parametrize(
    ("fine", "coarse"),
    [(1_000, 10), (1_024, 16), (1 << 34, 1 << 28)],
    ids=["any number", "powers of two", "as deep as the search goes"],
)
@pytest.mark.parametrize("case", CASES, ids=[case.column.name for case in CASES])
def test_a_row_falls_into_one_bucket_everywhere(
    case: KindCase, source: Connection, destination: Connection, fine: int, coarse: int
) -> None:
    """With the value itself as key, and without a key."""
    named = _named_v(case)
    rows = [{"id": n, "v": edge.value} for n, edge in enumerate(case.edges, 1)]
    for table in (
        Table(named.name, named.columns, ("v",)),
        Table(named.name, named.columns, ("v", "id")),
        Table(named.name, named.columns),
    ):
        expected: dict[int, list[str]] = {}
        for row in rows:
            number = bucket_of(table, row, buckets=fine, run_key=RUN_KEY)
            expected.setdefault(number, []).append(canonical_row(table, row))
        digests = {n: digest_of(texts, run_key=RUN_KEY) for n, texts in expected.items()}
        for view in _views_of(table, source, destination):
            segment = Segment(table.name, "id", "1", "100000", buckets=fine)
            found = view.digests(segment, run_key=RUN_KEY)
            assert found == digests
            some = next(iter(digests))
            chosen = Segment(table.name, "id", "1", "100000", buckets=1, among=(some % coarse,), among_of=coarse)
            wanted = [t for n, texts in expected.items() if n % coarse == some % coarse for t in texts]
            assert view.digests(chosen, run_key=RUN_KEY) == {0: digest_of(wanted, run_key=RUN_KEY)}
            keys = [row.key for row in view.row_hashes(chosen, run_key=RUN_KEY)]
            assert set(view.rows(table.name, keys)) == set(keys) and len(keys) == len(set(wanted))
            view.close()


def _views_of(table: Table, source: Connection, destination: Connection) -> list[ReadView]:
    left = MariaDbReadView(
        open_session(source),
        database=source.database,
        tables=[table],
        position=_NOWHERE,
        opened_at=datetime.now(UTC),
    )
    return [left, _view_of(table, destination)]


def _view_of(table: Table, destination: Connection) -> PostgresReadView:
    (view,) = open_views(
        destination,
        tables=[table],
        relations={table.name: Relation("public", table.name)},
        count=1,
        position_of=lambda _: _NOWHERE,
    )
    return view


def test_a_column_that_was_given_another_type_in_the_warehouse_is_reported_as_that(destination: Connection) -> None:
    table = Table("altered", (Column("m", Kind.DATETIME, "datetime(6)"),))
    with postgres(destination) as session:
        session.execute("CREATE TABLE altered (m timestamptz)")
    view = _view_of(table, destination)
    with pytest.raises(SchemaConflict, match="read the destination"):
        view.digests(Segment("altered"), run_key=RUN_KEY)
    view.close()


def test_an_infinite_moment_in_the_warehouse_is_a_value_of_its_own(destination: Connection) -> None:
    """MariaDB has none, so it is a break to be found: no failed scan, and one hash in the digest as in the rows."""
    moments = (Column("i", Kind.INSTANT, "timestamp(6)"), Column("m", Kind.DATETIME, "datetime(6)"))
    table = Table("endless", (Column("id", Kind.INTEGER, "bigint", length=64), *moments), ("id",))
    with postgres(destination) as session:
        session.execute("CREATE TABLE endless (id bigint, i timestamptz, m timestamp)")
        session.execute("INSERT INTO endless VALUES (1, 'infinity', 'infinity'), (2, '-infinity', '-infinity')")
        session.execute("INSERT INTO endless VALUES (3, '294276-12-31 23:59:59.999999Z', '4713-01-01 00:00:00 BC')")
    view = _view_of(table, destination)
    (digest,) = view.digests(Segment("endless"), run_key=RUN_KEY).values()
    hashes = [row.hash for row in view.row_hashes(Segment("endless"), run_key=RUN_KEY)]
    view.close()
    assert len(set(hashes)) == 3
    low, high = (sum(int(text[at : at + 15], 16) for text in hashes) for at in (0, 15))
    assert digest == SegmentDigest(3, 3, low, high)


def test_floats_stay_out_of_the_digest_and_agree_within_their_precision(
    views: tuple[MariaDbReadView, PostgresReadView],
) -> None:
    left, right = views
    segment = Segment("floats")
    assert left.digests(segment, run_key=RUN_KEY) == right.digests(segment, run_key=RUN_KEY)
    mine, theirs = left.float_summaries(segment), right.float_summaries(segment)
    assert mine["f"].agrees_with(theirs["f"], kind=Kind.FLOAT)
    assert mine["d"].agrees_with(theirs["d"], kind=Kind.DOUBLE)


_REALS = (Column("f", Kind.FLOAT, "real"), Column("d", Kind.DOUBLE, "double precision"))
_MIDDLES = st.builds(lambda digit, power: float(f"{digit}e{power}"), st.integers(1, 99), st.integers(-320, 306))
_SHORT, _LONG = st.floats(width=32), st.one_of(st.floats(), st.floats(width=32), _MIDDLES)


@given(st.lists(st.tuples(_SHORT, _LONG), min_size=1, max_size=200))
@example([(-0.0, -0.0), (2.0**-149, 5e-324), (1e22, 1e22), (1e23, 1e23), (0.1, 2.0**-44), (math.nan, math.nan)])
@example([(math.inf, -math.inf), (16777216.0, 1e15), (1e-4, 1e-5), (9e-5, 999999999999999.9), (-1e38, 2.0**49 + 0.75)])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_postgresql_prints_every_float_as_the_reference_does(
    session: "psycopg.Connection[Any]", pairs: list[tuple[float, float]]
) -> None:
    drawn = [list(values) for values in zip(*pairs, strict=True)]
    printed = ",".join(map(canonical_expression, _REALS))
    statement = f"SELECT {printed} FROM unnest(%s::real[], %s::float8[]) AS t(f, d)"
    found = session.execute(statement.encode(), drawn).fetchall()
    assert found == [tuple(map(canonical_text, _REALS, pair)) for pair in pairs]


@pytest.fixture(scope="module")
def session(destination: Connection) -> Iterator["psycopg.Connection[Any]"]:
    with postgres(destination) as session:
        for setting in SESSION_SETTINGS:
            session.execute(setting.encode())
        yield session


def test_the_order_of_rows_moves_no_float_summary(source: Connection, destination: Connection) -> None:
    """Found by a benchmark: sums of doubles came out apart where PostgreSQL added in another order, a false break."""
    table = Table("rates", (Column("id", Kind.INTEGER, "bigint", length=64), Column("d", Kind.DOUBLE, "double")))
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE rates (id BIGINT, d DOUBLE)")
        cursor.execute("INSERT INTO rates SELECT seq, IF(seq % 2, 0.1, 0.3) FROM seq_1_to_40000")
        cursor.execute("INSERT INTO rates VALUES (0, 1e25), (0, -2.5e-8), (0, NULL)")
    with postgres(destination) as session:
        session.execute("CREATE TABLE rates (id bigint, d float8)")
        session.execute("INSERT INTO rates VALUES (0, 1e25), (0, -2.5e-8), (0, NULL)")
        session.execute(
            "INSERT INTO rates SELECT n, CASE WHEN n % 2 = 1 THEN 0.1 ELSE 0.3 END FROM generate_series(1, 40000) n"
            " ORDER BY n % 2, n"
        )
    left, right = _views_of(table, source, destination)
    try:
        mine, theirs = (view.float_summaries(Segment("rates"))["d"] for view in (left, right))
        assert mine == theirs and mine.total == Decimal("7999.999999975")
    finally:
        left.close()
        right.close()


def test_a_zero_date_equals_no_other_value(source: Connection) -> None:
    columns = (
        Column("d", Kind.DATE, "date"),
        Column("t", Kind.DATETIME, "datetime"),
    )
    table = Table("zero_dates", columns)
    session = open_session(source)
    with session.cursor() as cursor:
        cursor.execute("CREATE TABLE zero_dates (d DATE, t DATETIME)")
        cursor.execute("INSERT INTO zero_dates VALUES ('0000-00-00', '0000-00-00'), (NULL, NULL)")
    view = MariaDbReadView(
        session, database=source.database, tables=[table], position=_NOWHERE, opened_at=datetime.now(UTC)
    )
    keys = {row.key for row in view.row_hashes(Segment("zero_dates"), run_key=RUN_KEY)}
    assert keys == {"0000-00-00,!0000-00-00 00:00:00", "~,~"}
    view.close()


# Per column: its type at the source, NULL or not, and the letters it holds besides NULL.
_LETTERS = {
    "a": ("varchar(20) collate utf8mb4_general_ci", True, "é,ß "),
    "b": ("char(20) collate utf8mb4_uca1400_as_cs", False, "€😀"),
    "c": ("varchar(20) character set latin1", True, "é€"),
    "d": ("text character set utf16", False, "Ωя"),
    "e": ("enum('ü','~') collate utf8mb4_bin", True, "ü"),
    "f": ("varchar(20) character set utf8mb3 collate utf8mb3_general_ci", False, "日本"),
}


def test_letters_of_many_character_sets_and_collations_make_one_digest_in_one_row(
    source: Connection, destination: Connection
) -> None:
    """A digest converts only the columns that are not utf8mb4 already; no pair of collations is too much for it."""
    kinds = {"b": Kind.CHAR, "e": Kind.ENUM}
    letters = [
        Column(name, kinds.get(name, Kind.STRING), of, nullable=nullable)
        for name, (of, nullable, _) in _LETTERS.items()
    ]
    table = Table("letters", (Column("id", Kind.INTEGER, "int", nullable=False, length=32), *letters), ("id",))
    rows: list[dict[str, Any]] = [{"id": 1, **{name: text for name, (*_, text) in _LETTERS.items()}}]
    rows.append({"id": 2, **{name: None if nullable else "" for name, (_, nullable, _) in _LETTERS.items()}})
    columns = ", ".join(f"{name} {of}{'' if nullable else ' NOT NULL'}" for name, (of, nullable, _) in _LETTERS.items())
    places = ", ".join(["%s"] * len(table.columns))
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE TABLE letters (id INT PRIMARY KEY, {columns})")
        cursor.executemany(f"INSERT INTO letters VALUES ({places})", [tuple(row.values()) for row in rows])
        session.commit()
    with postgres(destination) as other:
        other.execute(f"CREATE TABLE public.letters ({column_definitions(table)})")
        other.cursor().executemany(f"INSERT INTO letters VALUES ({places})", [tuple(row.values()) for row in rows])
    expected = {0: digest_of([canonical_row(table, row) for row in rows], run_key=RUN_KEY)}
    as_they_are = replace(
        table, columns=tuple(column for column in table.columns if column.name in {"id", "a", "b", "e"})
    )
    of_these = {0: digest_of([canonical_row(as_they_are, row) for row in rows], run_key=RUN_KEY)}
    for view in _views_of(as_they_are, source, destination):
        with closing(view):
            assert view.digests(Segment("letters"), run_key=RUN_KEY) == of_these, "nothing is converted here"
    for view in _views_of(table, source, destination):
        with closing(view):
            assert view.digests(Segment("letters"), run_key=RUN_KEY) == expected
            hashes = {row.hash for row in view.row_hashes(Segment("letters"), run_key=RUN_KEY)}
            assert hashes == {row_hash(canonical_row(table, row), run_key=RUN_KEY) for row in rows}


@pytest.mark.parametrize("mariadb_type", ["BIGINT", "BIGINT UNSIGNED"])
def test_ranges_of_the_key_hold_each_row_once_on_both_sides(
    source: Connection, destination: Connection, mariadb_type: str
) -> None:
    unsigned = "UNSIGNED" in mariadb_type
    kind = Kind.UNSIGNED if unsigned else Kind.INTEGER
    table = Table(
        "spread_unsigned" if unsigned else "spread",
        (Column("k", kind, mariadb_type, nullable=False, length=64), Column("n", Kind.INTEGER, "int", length=32)),
        ("k", "n"),
    )
    keys = [0, 1, 7, 8, 9, 2**63 - 1, 2**64 - 1] if unsigned else [-(2**63), -3, 0, 1, 7, 2**63 - 1]
    rows = [{"k": key, "n": n} for key in keys for n in (1, 2)]
    values = ", ".join(f"({row['k']}, {row['n']})" for row in rows)
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table.name} (k {mariadb_type}, n INT, PRIMARY KEY (k, n))")
        cursor.execute(f"INSERT INTO {table.name} VALUES {values}")
    with postgres(destination) as other:
        other.execute(f"CREATE TABLE public.{table.name} ({column_definitions(table)})")
        other.execute(f"INSERT INTO public.{table.name} VALUES {values}")
    for view in _views_of(table, source, destination):
        with closing(view):
            assert view.key_span(table.name) == (keys[0], keys[-1])
            ranges = key_ranges(view.key_span(table.name), 5)
            assert len(ranges) == 5
            counts = []
            for part in ranges:
                segment = replace(Segment(table.name), **part)  # type: ignore[arg-type]
                within = [row for row in rows if _is_within(row["k"], segment.key_from, segment.key_below)]
                expected = digest_of([canonical_row(table, row) for row in within], run_key=RUN_KEY)
                assert view.digests(segment, run_key=RUN_KEY).get(0, SegmentDigest()) == expected
                counts.append(len(within))
            assert sum(counts) == len(rows)


def _is_within(key: int, key_from: int | None, key_below: int | None) -> bool:
    return (key_from is None or key_from <= key) and (key_below is None or key < key_below)


def test_a_table_without_rows_has_no_span(source: Connection, destination: Connection) -> None:
    table = Table("none_yet", (Column("k", Kind.INTEGER, "int", nullable=False, length=32),), ("k",))
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE none_yet (k INT PRIMARY KEY)")
    with postgres(destination) as other:
        other.execute("CREATE TABLE public.none_yet (k int)")
    for view in _views_of(table, source, destination):
        with closing(view):
            assert view.key_span("none_yet") is None


def test_each_measure_is_the_same_on_both_sides_and_as_it_is_in_arrow(
    source: Connection, destination: Connection
) -> None:
    """Of texts in every case that a collation may take for one, with digits of other scripts, and of gaps."""
    columns = (
        Column("no", Kind.STRING, "varchar(60)", length=60),
        Column("branch", Kind.CHAR, "char(4)", length=4),
        Column("n", Kind.INTEGER, "bigint", length=64),
    )
    table = Table("measured", columns)
    rows = [
        ("DE02 1203 0000 0000 2020 51", "a", 1),
        ("de02 1203 0000 0000 2020 51", "A", 2),
        ("12-7 ١٢ 3", "a", 7),
        ("12-7 ١٢ 3", "a", 7),
        ("99999999999999999999", "A", 2**62),
        ("", "b", None),
        (None, "b", 5),
        ("no digit", None, -(2**62)),
    ]
    literals = [tuple("NULL" if one is None else repr(one) for one in row) for row in rows]
    values = ", ".join(f"({', '.join(row)})" for row in literals)
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE measured (no VARCHAR(60), branch CHAR(4), n BIGINT) CHARACTER SET utf8mb4")
        cursor.execute(f"INSERT INTO measured VALUES {values}")
    with postgres(destination) as other:
        other.execute(f"CREATE TABLE public.measured ({column_definitions(table)})".encode())
        other.execute(f"INSERT INTO public.measured VALUES {values}".encode())
    asked = [
        *((["n"], measure) for measure in Measure),
        (["no"], Measure.HASH),
        (["no"], Measure.DUPLICATES),
        (["no", "n"], Measure.DUPLICATES),
    ]
    for view in _views_of(table, source, destination):
        with closing(view):
            for names, measure in asked:
                for by in ([], ["branch"]):
                    held = GroupTotals(table, columns=names, by=by, measure=measure)
                    held.add(batch_of(table, rows))
                    found = view.totals(Segment("measured"), columns=names, by=by, measure=measure)
                    assert found == held.found(), (type(view).__name__, names, measure, by)


def test_totals_group_alike_on_both_sides(source: Connection, destination: Connection) -> None:
    columns = (Column("currency", Kind.CHAR, "char(3)", length=3), Column("amount", Kind.DECIMAL, "", True, 0, 20, 4))
    table = Table("totals", columns)
    rows = "('EUR', 1.5), ('EUR', -0.25), ('eur', 7), (NULL, 2), ('~', 3), ('', NULL)"
    session = open_session(source)
    with session.cursor() as cursor:
        cursor.execute("CREATE TABLE totals (currency CHAR(3), amount DECIMAL(20,4))")
        cursor.execute(f"INSERT INTO totals VALUES {rows}")
    session.close()
    with postgres(destination) as other:
        other.execute(f"CREATE TABLE public.totals ({column_definitions(table)})")
        other.execute(f"INSERT INTO public.totals VALUES {rows}".encode())
    answers = []
    for view in _views_of(table, source, destination):
        answers.append(view.totals(Segment("totals"), columns=["amount"], by=["currency"]))
        assert view.columns("totals") == ("currency", "amount")
        assert view.totals(Segment("totals"), columns=(), by=[]) == {(): (6, None)}
        view.close()
    assert answers[0] == answers[1]
    assert {group: rows for group, (rows, _) in answers[0].items()} == {
        ("EUR",): 2,
        ("eur",): 1,
        ("~",): 1,
        ("~~",): 1,
        ("",): 1,
    }
