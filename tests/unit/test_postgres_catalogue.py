"""PostgreSQL's types as kinds, and what cannot be kept named with its reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table, fingerprint, table_from_json, table_to_json
from seamline.domain.errors import SchemaConflict
from seamline.sources.postgres.catalogue import (
    ColumnFacts,
    column_from_facts,
    table_fault,
    table_from_facts,
    unsupported,
)


def facts(type_name: str, shown: str = "", *, modifier: int = -1, type_kind: str = "b", name: str = "c") -> ColumnFacts:
    return ColumnFacts(name, type_name, type_kind, shown or type_name, modifier)


def of_others(type_name: str, shown: str = "", *, modifier: int = -1, type_kind: str = "b") -> ColumnFacts:
    """Of an extension, or somebody's own."""
    return replace(facts(type_name, shown, modifier=modifier, type_kind=type_kind), is_of_server=False)


def composite(*fields: str) -> ColumnFacts:
    """Named like a type that is known."""
    return replace(facts("text", "address", type_kind="c"), is_of_server=False, fields=fields, field_count=3)


def numeric(precision: int, scale: int) -> ColumnFacts:
    """As PostgreSQL 15 and later write the modifier (numeric.c, make_numeric_typmod)."""
    return facts("numeric", f"numeric({precision},{scale})", modifier=((precision << 16) | (scale & 0x7FF)) + 4)


@pytest.mark.parametrize(
    ("found", "kind", "length", "precision", "scale"),
    [
        (facts("int2", "smallint"), Kind.INTEGER, 16, 0, 0),
        (facts("int4", "integer"), Kind.INTEGER, 32, 0, 0),
        (facts("int8", "bigint"), Kind.INTEGER, 64, 0, 0),
        (numeric(12, 2), Kind.DECIMAL, 0, 12, 2),
        (numeric(1, 0), Kind.DECIMAL, 0, 1, 0),
        (numeric(3, 5), Kind.DECIMAL, 0, 3, 5),
        (numeric(1000, 1000), Kind.DECIMAL, 0, 1000, 1000),
        (facts("numeric"), Kind.DECIMAL, 0, 0, 0),
        (facts("float4", "real"), Kind.FLOAT, 0, 0, 0),
        (facts("float8", "double precision"), Kind.DOUBLE, 0, 0, 0),
        (facts("bool", "boolean"), Kind.BOOLEAN, 0, 0, 0),
        (facts("bpchar", "character(5)", modifier=9), Kind.CHAR, 5, 0, 0),
        (facts("varchar", "character varying(80)", modifier=84), Kind.STRING, 80, 0, 0),
        (facts("varchar", "character varying"), Kind.STRING, 0, 0, 0),
        (facts("text"), Kind.STRING, 0, 0, 0),
        (facts("bytea"), Kind.BYTES, 0, 0, 0),
        (facts("date"), Kind.DATE, 0, 0, 0),
        (facts("timestamp", "timestamp without time zone"), Kind.DATETIME, 0, 6, 0),
        (facts("timestamp", "timestamp(0) without time zone", modifier=0), Kind.DATETIME, 0, 0, 0),
        (facts("timestamp", "timestamp(3) without time zone", modifier=3), Kind.DATETIME, 0, 3, 0),
        (facts("timestamptz", "timestamp with time zone"), Kind.INSTANT, 0, 6, 0),
        (facts("timestamptz", "timestamp(0) with time zone", modifier=0), Kind.INSTANT, 0, 0, 0),
        (facts("timestamptz", "timestamp(6) with time zone", modifier=6), Kind.INSTANT, 0, 6, 0),
        (facts("interval"), Kind.INTERVAL, 0, 0, 0),
        (facts("json"), Kind.JSON, 0, 0, 0),
        (facts("jsonb"), Kind.JSONB, 0, 0, 0),
        (facts("uuid"), Kind.UUID, 0, 0, 0),
        (facts("mood", type_kind="e"), Kind.ENUM, 0, 0, 0),
        (facts("uuid", "an enum of this name", type_kind="e"), Kind.ENUM, 0, 0, 0),
        # A domain is given as its base type, with the modifier of the domain.
        (facts("numeric", "amount", modifier=numeric(20, 4).modifier), Kind.DECIMAL, 0, 20, 4),
        (facts("varchar", "iban", modifier=38), Kind.STRING, 34, 0, 0),
        (facts("mood", "mood_of_clients", type_kind="e"), Kind.ENUM, 0, 0, 0),
    ],
)
def test_each_type_of_postgres_has_its_kind(
    found: ColumnFacts, kind: Kind, length: int, precision: int, scale: int
) -> None:
    assert unsupported(found) == ""
    assert column_from_facts(found) == Column(
        "c", kind, found.shown, nullable=True, length=length, precision=precision, scale=scale, toastable=False
    )


@pytest.mark.parametrize(
    ("found", "kind", "native", "stored"),
    [
        (facts("inet"), Kind.NATIVE, "inet", "inet"),
        (facts("cidr"), Kind.NATIVE, "cidr", "cidr"),
        (facts("macaddr", "card"), Kind.NATIVE, "macaddr", "macaddr"),
        (facts("macaddr8"), Kind.NATIVE, "macaddr8", "macaddr8"),
        (facts("tstzrange", type_kind="r"), Kind.NATIVE, "tstzrange", "tstzrange"),
        (facts("numrange", "discount", type_kind="r"), Kind.NATIVE, "numrange", "numrange"),
        (facts("int8multirange", type_kind="m"), Kind.NATIVE, "int8multirange", "int8multirange"),
        (facts("tsvector"), Kind.NATIVE, "tsvector", "tsvector"),
        (of_others("citext"), Kind.STRING, "citext", "text"),
        (of_others("ltree"), Kind.STRING, "ltree", "text"),
        (of_others("hstore"), Kind.JSONB, "hstore", "jsonb"),
        (of_others("citext", type_kind="e"), Kind.ENUM, "", "text"),
    ],
)
def test_a_type_that_only_postgresql_has_is_named_in_its_column_also_behind_a_domain(
    found: ColumnFacts, kind: Kind, native: str, stored: str
) -> None:
    assert unsupported(found) == ""
    column = column_from_facts(replace(found, toastable=True))
    assert column == Column("c", kind, found.shown, toastable=True, native=native)
    assert destination_type(column) == stored
    assert table_from_json(table_to_json(Table("t", (column,)))) == Table("t", (column,))


def test_a_composite_type_is_kept_as_its_text() -> None:
    found = composite("text", "int4", "date", "float8")
    assert unsupported(found) == ""
    assert column_from_facts(found) == Column("c", Kind.STRING, "address", precision=3, native="composite")
    assert destination_type(column_from_facts(found)) == "text"


@pytest.mark.parametrize("shown", ["bit(9)", "mask"])
def test_bits_have_their_length_and_always_lie_in_their_row(shown: str) -> None:
    found = replace(facts("bit", shown, modifier=9), toastable=True)
    assert unsupported(found) == ""
    assert column_from_facts(found) == Column("c", Kind.NATIVE, shown, length=9, native="bit(9)")


def test_a_domain_over_another_type_is_another_shape() -> None:
    one, other = (Table("t", (column_from_facts(facts(name, "place")),)) for name in ("inet", "cidr"))
    assert fingerprint(one) != fingerprint(other)


@given(st.integers(1, 1000), st.integers(-1000, 1000))
def test_precision_and_scale_of_every_numeric_are_read_from_its_modifier(precision: int, scale: int) -> None:
    column = column_from_facts(numeric(precision, scale))
    assert (column.kind, column.precision, column.scale) == (Kind.DECIMAL, precision, scale)
    assert bool(unsupported(numeric(precision, scale))) == (scale < 0)


@pytest.mark.parametrize("precision", [1, 2, 511, 512, 999, 1000])
def test_no_scale_is_taken_for_another_one(precision: int) -> None:
    scales = range(-1000, 1001)
    assert [column_from_facts(numeric(precision, scale)).scale for scale in scales] == list(scales)


def test_a_column_keeps_its_name_its_nulls_and_whether_its_values_may_lie_outside_of_the_row() -> None:
    found = ColumnFacts("memo", "text", "b", "text", nullable=False, toastable=True)
    assert column_from_facts(found) == Column("memo", Kind.STRING, "text", nullable=False, toastable=True)
    assert column_from_facts(replace(found, nullable=True, toastable=False)) == Column("memo", Kind.STRING, "text")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (numeric(3, -2), "a negative scale is not supported"),
        (facts("interval", "interval day to second", modifier=470286335), "limited fields or precision"),
        (facts("interval", "interval(3)", modifier=2147418115), "limited fields or precision"),
        (facts("timetz", "time with time zone"), "lacks its zone"),
        (facts("timetz", "time with time zone"), 'TYPE text USING "c"::text'),
        (facts("money"), 'lc_monetary. Keep it as another type: ALTER COLUMN "c" TYPE numeric(19,2)'),
        (facts("varbit", "bit varying(70)", modifier=70), "lacks its length"),
        (facts("name"), "own catalogue"),
        (facts("bpchar"), "not supported yet"),
        (facts("char", '"char"'), "own catalogue"),
        (facts("bit", "bit(129)", modifier=129), "not supported yet"),
        (facts("bit"), "not supported yet"),
        (facts("xml"), 'not supported yet. Keep it as another type: ALTER COLUMN "c" TYPE text USING "c"::text'),
        (facts("oid"), "not supported yet"),
        (facts("pg_lsn"), "not supported yet"),
        (of_others("vector", "vector(3)", modifier=3), "not supported yet"),
        (composite("text", "timestamptz"), "a field of timestamptz: its text follows the session"),
        (composite("text", "bytea"), 'TYPE jsonb USING to_jsonb("c")'),
        # Of this name, and nobody's but theirs.
        (of_others("int4range", type_kind="r"), "not supported yet"),
        (of_others("int4multirange", type_kind="m"), "not supported yet"),
        (of_others("inet"), "not supported yet"),
        (replace(facts("_int4", "integer[]"), is_array=True), "arrays are not supported"),
        (replace(facts("_int4", "integer[]"), is_array=True), 'TYPE jsonb USING to_jsonb("c")'),
        (replace(facts("_mood", "mood[]"), is_array=True), "arrays are not supported"),
        (replace(facts("int4", "integer"), is_generated=True), "publish_generated_columns = stored"),
    ],
)
def test_a_type_that_cannot_be_kept_exactly_is_named_with_its_reason(found: ColumnFacts, said: str) -> None:
    table, faults = table_from_facts("t", [found], ())
    assert table.columns == ()
    (fault,) = faults
    assert fault.startswith(f'"t"."c" {found.shown}: ')
    assert said in fault


def test_a_column_of_unknown_type_is_never_made() -> None:
    with pytest.raises(SchemaConflict, match="column c has the type xml"):
        column_from_facts(facts("xml"))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (facts("numeric"), "needs a declared precision and scale"),
        (facts("float4", "real"), "no exact key"),
        (facts("float8", "double precision"), "no exact key"),
        (facts("interval"), "written in several ways"),
        (facts("jsonb"), "written in several ways"),
        (facts("numrange", type_kind="r"), "written in several ways"),
        (facts("datemultirange", type_kind="m"), "written in several ways"),
        (composite("text"), "written in several ways"),
        (of_others("hstore"), "written in several ways"),
    ],
)
def test_a_key_that_may_be_written_in_two_ways_is_refused(found: ColumnFacts, said: str) -> None:
    id_ = facts("int8", "bigint", name="id")
    table, faults = table_from_facts("t", [id_, found], ("id", "c"))
    (fault,) = faults
    assert fault.startswith(f'"t"."c" {found.shown}: ')
    assert said in fault
    assert [column.name for column in table.columns] == ["id"]
    assert table_from_facts("t", [id_, found], ("id",))[1] == [], "outside of the key it is kept"


@pytest.mark.parametrize(
    "found",
    [
        facts("int8", "bigint"),
        numeric(20, 4),
        facts("numeric", "amount", modifier=numeric(9, 0).modifier),
        facts("text"),
        facts("bpchar", "character(5)", modifier=9),
        facts("uuid"),
        facts("date"),
        facts("timestamptz", "timestamp with time zone"),
        facts("bytea"),
        facts("bool", "boolean"),
        facts("mood", type_kind="e"),
        facts("inet"),
        facts("macaddr8"),
        facts("bit", "bit(9)", modifier=9),
        of_others("citext"),
    ],
)
def test_what_is_written_in_one_way_may_be_a_key(found: ColumnFacts) -> None:
    table, faults = table_from_facts("t", [found], ("c",))
    assert faults == []
    assert table.key_columns == table.columns


def test_the_key_keeps_its_declared_order() -> None:
    found = [replace(facts("int4", "integer", name=name), nullable=False) for name in ("a", "b")]
    table, faults = table_from_facts("t", found, ("b", "a"), rows_estimate=5)
    assert faults == []
    assert [column.name for column in table.columns] == ["a", "b"]
    assert (table.name, table.key, table.rows_estimate) == ("t", ("b", "a"), 5)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([facts("money", name="a"), facts("text", name="b"), facts("xml", name="d")], ['"t"."a"', '"t"."d"']),
        ([], ['"t" has no columns']),
    ],
)
def test_every_faulty_column_is_named_at_once(found: Sequence[ColumnFacts], names: list[str]) -> None:
    table, faults = table_from_facts("t", found, ())
    assert len(faults) == len(names)
    assert all(fault.startswith(name) for fault, name in zip(faults, names, strict=True))
    assert not table.is_keyed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("account", ""),
        ("acount", 'there is no table "acount", did you mean "account"?'),
        ("Account", 'there is no table "Account", did you mean "account"?'),
        ("inactive", 'there is no table "inactive", did you mean "active"?'),
        ("active", '"active" is a view: name the tables it reads'),
        ("totals", '"totals" is a materialized view: name the tables it reads'),
        ("abroad", '"abroad" is a foreign table: its rows are not in this server\'s log'),
        ("by_month", ""),
        ("numbers", '"numbers" is a sequence, not a table'),
        ("odd", '"odd" is a relation of kind x'),
    ],
)
def test_a_name_that_is_no_table_is_reported_with_the_reason(name: str, said: str) -> None:
    kinds = {"account": "r", "active": "v", "totals": "m", "abroad": "f", "by_month": "p", "numbers": "S", "odd": "x"}
    assert table_fault(name, {table: (relkind, 1) for table, relkind in kinds.items()}) == said


def test_a_name_unlike_all_others_is_reported_without_a_guess() -> None:
    assert table_fault("zzz", {"account": ("r", 1)}) == 'there is no table "zzz"'
    assert table_fault("zzz", {}) == 'there is no table "zzz"'
