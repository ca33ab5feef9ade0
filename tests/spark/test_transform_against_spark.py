"""What a transform computes by Arrow is what Spark computes, over edge values and NULL, or both refuse."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.row_transform import RowTransform, spark_type
from seamline.transform import evaluate
from seamline.transform.rows import made_of
from seamline.values.build import batch_of, rows_of
from seamline_spark.session import open_session
from seamline_spark.transform.analysis import Mistake, analysed

ROWS = 150
TEXTS = (
    "",
    "a",
    "ab",
    "ab ",
    "  \u00a0ab\t ",
    "Zoë",
    "straße",
    "ﬁn",
    "日本語",
    "a\u0301e",
    "😀b😀",
    "\x00",
    "\uffff",
    "z" * 300,
    "-12.50",
    None,
)
MOMENTS = tuple(
    one and datetime.fromisoformat(one)
    for one in (
        "0001-01-01T00:00:00", "1582-10-04T23:59:59", "1969-12-31T23:59:59.999999", "2024-02-29T12:00:00",
        "9999-12-31T23:59:59.999999", None,
    )
)  # fmt: skip
DAYS = (
    date(1, 1, 1),
    date(1582, 10, 15),
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(9999, 12, 31),
    None,
)
COLUMNS: tuple[tuple[Column, tuple[Any, ...]], ...] = (
    (Column("h", Kind.INTEGER, "smallint", length=16), (-(2**15), -1, 0, 7, 2**15 - 1, None)),
    (Column("i", Kind.INTEGER, "int", length=32), (-40_000, -1, 0, 1, 7, 40_000, None)),
    (Column("j", Kind.INTEGER, "int", length=32), (-40_000, 0, 1, 2, 30_000, None)),
    (Column("b", Kind.INTEGER, "bigint", length=64), (-(2**62), -1, 0, 1, 2**62, 999_999_999_999, None)),
    (Column("s", Kind.STRING, "text"), TEXTS),
    (Column("t", Kind.STRING, "text"), TEXTS),
    (Column("c", Kind.CHAR, "char(5)", length=5), ("a", "ab", "", None)),
    (Column("m", Kind.DECIMAL, "numeric(12,2)", precision=12, scale=2),
     (*map(Decimal, ("0", "-0.01", "0.05", "1.25", "-1.35", "2.50", "9999999999.99", "-9999999999.99")), None)),
    (Column("n", Kind.DECIMAL, "decimal(38,10)", precision=38, scale=10),
     (*map(Decimal, ("0", "0.0000000001", "-0.00005", "12345678901234567.1234567891", "-99999.99995", "2.5")), None)),
    (Column("k", Kind.DECIMAL, "decimal(5,0)", precision=5), (*map(Decimal, ("-99999", "0", "3", "99999")), None)),
    (Column("d", Kind.DATE, "date"), DAYS),
    (Column("e", Kind.DATE, "date"), DAYS),
    (Column("w", Kind.DATETIME, "datetime(6)", precision=6), MOMENTS),
    (Column("a", Kind.INSTANT, "timestamptz", precision=6), tuple(one and one.replace(tzinfo=UTC) for one in MOMENTS)),
    (Column("o", Kind.BOOLEAN, "boolean"), (True, False, None)),
    (Column("p", Kind.BOOLEAN, "boolean"), (True, False, None)),
    (Column("y", Kind.BYTES, "bytea"), (b"", b"\x00", b"\xff\x00a", "ä".encode(), None)),
)  # fmt: skip
TABLE = Table(
    "edges", (Column("id", Kind.INTEGER, "int", nullable=False, length=32), *(one for one, _ in COLUMNS)), ("id",)
)

# Each of them without an error over the values above.
EXPRESSIONS = (
    "cast(h as int)", "cast(i as bigint)", "cast(h as decimal(5,0))", "cast(i as decimal(20,3))",
    "cast(b as decimal(38,2))", "cast(m as decimal(13,1))", "cast(m as decimal(12,0))", "cast(n as decimal(38,4))",
    "cast(n as decimal(30,0))", "cast(k as int)", "cast(m as bigint)", "cast(n as bigint)", "cast(m as decimal(20,6))",
    "cast(i as string)", "cast(b as string)", "cast(m as string)", "cast(k as string)", "cast(o as string)",
    "cast(d as string)", "cast(s as binary)", "cast(w as date)", "cast(a as date)", "cast(d as timestamp_ntz)",
    "cast(null as string)", "cast(null as decimal(5,2))",
    "i + j", "i - j", "i * j", "h + i", "b + i", "-i", "-m", "m + m", "m - n", "m * n", "m * 2 + 1", "n * k",
    "k * 1.5", "m + b", "cast(1 as bigint) * j", "-(m * m)", "n - cast(0.00005 as decimal(38,5))",
    "concat(s, t)", "s || '-' || t", "concat('x', cast(i as string), c)", "c || '|'", "concat(s)",
    "substring(s, 1, 2)", "substring(s, 0, 2)", "substring(s, 2)", "substring(s, -2, 1)", "substring(s, -2)",
    "substring(s, -5, 3)", "substring(s, -5, 9)", "substring(s, 3, 0)", "substring(s, 2, -1)", "left(s, 3)",
    "substring(s, 300, 5)", "left(s, 0)",
    "right(s, 2)", "right(s, 0)", "right(s, 500)", "concat('****', right(s, 4))", "length(s)", "length(c)", "trim(s)",
    "ltrim(s)", "rtrim(s)", "year(d)", "month(d)", "day(d)", "year(a)",
    "coalesce(s, t, '-')", "ifnull(m, 0)", "nvl(d, e)", "coalesce(i, j)",
    "sha2(s, 256)", "sha2(s, 0)", "sha2(s, 224)", "sha2(t, 384)", "sha2(y, 512)", "sha2(c, 256)",
    "sha2(concat('salt', s), 256)", "sha2(cast(m as string), 256)",
    *(f"{left} {sign} {right}" for left, right in ("ij", "ib", "st", "mn", "de", "mi")
      for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    "w = cast(d as timestamp_ntz)", "w < timestamp_ntz'2000-01-01 00:00:00'", "a >= timestamp'1970-01-01 00:00:00Z'",
    "y = cast(s as binary)", "y < x'ff'", "o = p", "o <=> p", "c = 'ab'",
    "o and p", "o or p", "not o", "o and (i > 0 or p)", "s is null", "s is not null", "i in (1, 7, null)",
    "s in ('a', 'Zoë')", "i not in (1, 2)", "m in (1.25, -1.35)", "d in (date'1970-01-01', date'9999-12-31')",
    "case when i > 0 then s when i < 0 then t end", "case when o then m else 0 end",
    "case s when 'a' then 1 else 2 end",
    "if(i <> 0, 'some', null)", "case when o then 'x' when p then concat('y', s) else coalesce(t, 'z') end",
    "nullif(s, 'a')", "m between -1.35 and 2.5",
    "case when i between -1 and 7 then d else e end",
    # Of rows that do not come to a branch nothing is asked.
    "case when i < 40000 then cast(i * 1000 as int) else j end", "b < 1000 and b * 2 > 0",
    "b <= 0 or b < 4611686018427387904",
    "'text'", "42", "cast(12.5 as decimal(10,3))", "true", "date'2024-02-29'", "x'00ff'",
)  # fmt: skip
# Expression, and the one value of its column for which there is no result.
WITHOUT_RESULT = (
    ("cast(b as int)", "b", 2**31), ("cast(i as smallint)", "i", -40_000), ("cast(i as decimal(2,0))", "i", 100),
    ("cast(m as decimal(3,1))", "m", Decimal("99.95")), ("cast(m as int)", "m", Decimal(2**31)),
    ("i + 2147483647", "i", 1), ("i - 2147483647", "i", -2), ("i * 65536", "i", 65_536), ("b + 1", "b", 2**63 - 1),
    ("-b", "b", -(2**63)), ("-h", "h", -(2**15)),
    ("n * 99999", "n", Decimal("9" * 28)),
)  # fmt: skip


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("transform")
    yield session.newSession()
    session.stop()


@pytest.fixture(scope="module")
def edges() -> pa.RecordBatch:
    chosen = random.Random(50)
    rows = [(number, *(chosen.choice(values) for _, values in COLUMNS)) for number in range(ROWS)]
    return batch_of(TABLE, rows)


def frame(spark: SparkSession, batch: pa.RecordBatch) -> None:
    """The rows as a view of Spark, under the table's name."""
    fields = [StructField(one.name, _parse_datatype_string(spark_type(one)), one.nullable) for one in TABLE.columns]
    values = rows_of(TABLE, batch)
    spark.createDataFrame(values, StructType(fields)).createOrReplaceTempView(TABLE.name)


def made(spark: SparkSession, select: str, where: str = "") -> RowTransform:
    text = f"SELECT id, {select} FROM {TABLE.name}{where}"
    found = analysed(spark, TABLE, RowTransform("include/transforms/edges.sql", text))
    assert isinstance(found, RowTransform), found
    return found


def by_arrow(transform: RowTransform, batch: pa.RecordBatch) -> pa.RecordBatch:
    return made_of(transform, TABLE, batch)


def differing(spark: SparkSession, edges: pa.RecordBatch) -> dict[str, list[tuple[object, object]]]:
    """Per expression what Arrow and Spark give where that is not the same; one that Spark takes and Arrow ends too."""
    select = ", ".join(f"{text} AS x{number}" for number, text in enumerate(EXPRESSIONS))
    transform = made(spark, select)
    mine = by_arrow(transform, edges)
    frame(spark, edges)
    theirs = spark.sql(f"SELECT id, {select} FROM {TABLE.name}").toArrow().sort_by("id")
    found: dict[str, list[tuple[object, object]]] = {}
    for number, text in enumerate(EXPRESSIONS, 1):
        pairs = zip(mine.column(number).to_pylist(), theirs.column(number).to_pylist(), strict=True)
        if apart := [pair for pair in pairs if pair[0] != pair[1]]:
            found[text] = apart
    return found


def test_every_operation_gives_what_spark_gives(spark: SparkSession, edges: pa.RecordBatch) -> None:
    assert differing(spark, edges) == {}


def test_all_operations_of_the_closed_list_were_asked(spark: SparkSession) -> None:
    def operations(one: Any) -> set[str]:
        return {one.op}.union(*map(operations, one.args))

    transform = made(spark, ", ".join(f"{text} AS x{number}" for number, text in enumerate(EXPRESSIONS)))
    assert set[str]().union(*map(operations, transform.columns)) == set(evaluate._OPERATIONS)


def test_what_ends_spark_ends_the_transform(spark: SparkSession) -> None:
    rows = [
        (number, *(value if one.name == column else None for one, _ in COLUMNS))
        for number, (_, column, value) in enumerate(WITHOUT_RESULT)
    ]
    batch = batch_of(TABLE, rows)
    whole = made(spark, ", ".join(f"{text} AS x{number}" for number, (text, _, _) in enumerate(WITHOUT_RESULT)))
    frame(spark, batch)
    for number, (text, _, _) in enumerate(WITHOUT_RESULT):
        alone = replace(
            whole,
            target=replace(whole.planned, columns=(whole.planned.columns[number + 1],), key=()),
            columns=(whole.columns[number + 1],),
        )
        with pytest.raises(SchemaConflict, match="has no result for a row of edges"):
            by_arrow(alone, batch.slice(number, 1))
        with pytest.raises(PySparkException):
            spark.sql(f"SELECT {text} AS x FROM {TABLE.name} WHERE id = {number}").collect()


FUNCTION = """
from pyspark.sql import functions as F


def transform(frame):
    return frame.select(
        "id",
        F.sha2("s", 256).alias("s"),
        {0},
    ).where({1})
"""


def by_function(spark: SparkSession, text: str) -> RowTransform | list[Mistake]:
    return analysed(spark, TABLE, RowTransform("include/transforms/edges.py", text))


def test_a_function_of_a_frame_is_the_query_that_it_stands_for(spark: SparkSession) -> None:
    text = FUNCTION.format("(F.col('m') * 2).alias('x')", "F.col('id') > 3")
    query = made(spark, "sha2(s, 256) AS s, m * 2 AS x", " WHERE id > 3")
    assert by_function(spark, text) == replace(query, file="include/transforms/edges.py", text=text)


MISTAKEN_FUNCTIONS = (
    (FUNCTION.format("F.upper('s').alias('x')", "F.col('id') > 3"), 9, "Upper is not among the expressions"),
    (
        FUNCTION.format("F.udf(lambda v: v)('s').alias('x')", "F.col('id') > 3"),
        9,
        "PythonUDF is not among the expressions",
    ),
    (FUNCTION.format("F.col('emal')", "F.col('id') > 3"), 6, "name `emal` cannot be resolved"),
    (FUNCTION.format("F.col('t')", "F.col('id') > wrong"), 10, "NameError"),
    (FUNCTION.format("F.col('t')", "F.rand() > 1"), 10, "rand.* gives another value each time"),
    ("def transform(frame):\n    return frame.groupBy('id').count()\n", 1, "Aggregate is not row by row"),
    ("def transform(frame):\n    return 7\n", 1, "returns int, which is no DataFrame"),
    ("def transform(frame:\n", 1, "this is not Python"),
    ("def other(frame):\n    return frame\n", 1, "there is no function `transform`"),
    (
        "def transform(frame):\n    return frame.sparkSession.createDataFrame(frame.rdd, frame.schema)\n",
        1,
        "it has rows that do not come from `edges`",
    ),
    (
        "def transform(frame):\n    return frame.where(frame['i'] > 3).localCheckpoint()\n",
        1,
        "it has rows that do not come from `edges`",
    ),
    ("def transform(frame):\n    return frame.where(frame['s'].isin([]))\n", 2, "nothing is compared"),
)


@pytest.mark.parametrize(("text", "line", "what"), MISTAKEN_FUNCTIONS, ids=[what for _, _, what in MISTAKEN_FUNCTIONS])
def test_a_function_that_is_no_transform_is_refused_with_its_line(
    spark: SparkSession, text: str, line: int, what: str
) -> None:
    found = by_function(spark, text)
    assert isinstance(found, list)
    (mistake,) = found
    assert re.search(what, mistake.what), mistake.what
    assert mistake.line == line


def test_a_planted_difference_is_noticed(
    spark: SparkSession, edges: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves are rounded to the even digit."""
    known = evaluate._fitted

    def to_even(values: pa.Array, precision: int, scale: int) -> pa.Array:
        wide = pa.decimal256(76, values.type.scale)
        return known(evaluate.pc.round(values.cast(wide), ndigits=scale, round_mode="half_to_even"), precision, scale)

    monkeypatch.setattr(evaluate, "_fitted", to_even)
    assert "cast(m as decimal(13,1))" in differing(spark, edges)


MISTAKES = (
    ("SELECT s FROM edges", 1, "id is of the key of edges, and the query does not give it"),
    ("SELECT id + 1 AS id FROM edges", 1, "id is of the key of edges, and the query computes it"),
    ("SELECT id,\n  rand() AS r FROM edges", 2, "rand.* gives another value each time"),
    ("SELECT id,\n now() AS at FROM edges", 2, "now.* gives another value each time"),
    ("SELECT id, max(s)\nFROM edges GROUP BY id", 1, "Aggregate is not row by row"),
    ("SELECT DISTINCT id FROM edges", 1, "Distinct is not row by row"),
    ("SELECT id FROM edges LIMIT 3", 1, "GlobalLimit is not row by row"),
    ("SELECT a.id FROM edges a JOIN edges b ON a.id = b.id", 1, "Join is not row by row"),
    ("SELECT id,\n\n u || 'x' AS x FROM edges", 3, "u is uuid: Spark does not hold every value of kind uuid exactly"),
    ("SELECT id, emal FROM edges", 1, "name `emal` cannot be resolved"),
    ("SELECT id,\n FRM edges x y", 2, "Syntax error"),
    ("DROP TABLE edges", 1, "this is no query"),
    ("SELECT id, s FROM edges\nWHERE i > 0", 2, "the log may leave out s of a row that WHERE has kept out"),
    ("SELECT id FROM edges\nWHERE rand() > 0.5", 2, "rand.* gives another value each time"),
    ("SELECT id, NULL IS NULL AS n FROM edges", 1, "NULL has no type there"),
    ("SELECT id, NULL AS n FROM edges", 1, "n is NULL of no type"),
    ("SELECT id, s AS x, t AS x FROM edges", 1, "two columns are called x"),
    ("SELECT id,\n upper(s) AS x FROM edges", 2, "Upper is not among the expressions of a transform"),
    ("SELECT id, try_cast(b AS int) AS x FROM edges", 1, "makes NULL of what does not fit"),
    ("SELECT id, s || t AS x FROM edges", 1, "the log may leave out s, and the expression needs s, t"),
    ("SELECT id, s FROM VALUES (1, 'x') AS edges(id, s)", 1, "it has rows that do not come from `edges`"),
    (
        "SELECT id, CAST(CAST(m AS DECIMAL(30,4)) AS INT) AS x FROM edges",
        1,
        "a cast from decimal.30,4. to int is not taken",
    ),
)


@pytest.mark.parametrize(("text", "line", "what"), MISTAKES, ids=[what for _, _, what in MISTAKES])
def test_what_is_no_transform_is_refused_with_its_line(spark: SparkSession, text: str, line: int, what: str) -> None:
    columns = tuple(replace(one, toastable=one.name in ("s", "t")) for one in TABLE.columns)
    table = replace(TABLE, columns=(*columns, Column("u", Kind.UUID, "uuid")))
    found = analysed(spark, table, RowTransform("include/transforms/edges.sql", text))
    assert isinstance(found, list)
    (mistake,) = found
    assert isinstance(mistake, Mistake)
    assert mistake.line == line
    assert re.search(what, mistake.what), mistake.what
    assert mistake.cure


def test_the_table_of_another_query_is_not_there(spark: SparkSession) -> None:
    made(spark, "s")
    other = replace(TABLE, name="other")
    found = analysed(spark, other, RowTransform("include/transforms/other.sql", "SELECT id, s FROM edges"))
    assert isinstance(found, list)
    assert "edges" in found[0].what
