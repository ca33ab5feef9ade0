"""Edge values: every kind that a source may have gets some, each once, and none that the declared type cannot hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.adapters.probe_statements import default_of, transactions
from seamline.databases.mysql import edge_values as mariadb
from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.probe import Probe, ProbePath, probe_of
from seamline.sources.postgres import edge_values as postgres
from tests.integration.kinds import CASES, INEXACT_CASES

# The catalogue shows bit(1) as bits.
OF_MARIADB = [case.column for case in (*CASES, *INEXACT_CASES) if case.column.kind is not Kind.BOOLEAN]


@pytest.mark.parametrize("column", OF_MARIADB, ids=lambda column: column.name)
def test_every_kind_of_a_mariadb_column_has_edge_values_and_null(column: Column) -> None:
    values = mariadb.edge_values(column)
    assert len(values) > 2
    assert len(set(values)) == len(values)
    assert values[-1] == "NULL"


@pytest.mark.parametrize("kind", sorted({*postgres._VALUES, Kind.ENUM}))
def test_every_kind_of_a_postgresql_column_has_edge_values_and_no_null_where_it_takes_none(kind: Kind) -> None:
    values = postgres.edge_values(Column("v", kind, "", nullable=False, length=16), labels=("ok", "it's"))
    assert len(values) >= 2
    assert len(set(values)) == len(values)
    assert "NULL" not in values


@pytest.mark.parametrize("native", [*sorted(postgres._NATIVE_TEXTS), "citext", "bit(1)", "bit(9)", "bit(128)"])
def test_every_type_that_only_postgresql_has_has_edge_values(native: str) -> None:
    values = postgres.edge_values(
        Column("v", Kind.NATIVE, "", length=int(native[4:-1]) if "bit" in native else 0, native=native)
    )
    assert len(values) > 2
    assert len(set(values)) == len(values)
    assert values[-1] == "NULL"


def test_a_composite_type_has_one_value_without_any_field() -> None:
    assert postgres.edge_values(Column("v", Kind.STRING, "", precision=3, native="composite")) == ("'(,,)'", "NULL")


@pytest.mark.parametrize(
    ("source_type", "least", "most"),
    [
        ("tinyint(4)", "-128", "127"),
        ("mediumint(8) unsigned", "0", "16777215"),
        ("int(8) unsigned zerofill", "0", "4294967295"),
        ("bigint(20)", "-9223372036854775808", "9223372036854775807"),
        ("bigint(20) unsigned", "0", "18446744073709551615"),
    ],
)
def test_whole_numbers_go_to_both_ends_of_the_declared_type(source_type: str, least: str, most: str) -> None:
    values = mariadb.edge_values(Column("v", Kind.INTEGER, source_type))
    assert {least, most} <= set(values)


@given(st.integers(1, 65), st.data())
def test_decimals_fill_the_declared_precision_and_never_more(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(precision, 38)))
    column = Column("v", Kind.DECIMAL, "decimal", False, precision=precision, scale=scale)
    for value in mariadb.edge_values(column):
        whole, _, fraction = value.removeprefix("-").partition(".")
        assert len(whole.lstrip("0")) <= precision - scale
        assert len(fraction.rstrip("0")) <= scale
    assert any(value.count("9") == precision for value in mariadb.edge_values(column))


@pytest.mark.parametrize(("digits", "largest"), [("(7,3)", "9999.999"), ("(10,2)", "99999999.99"), ("(5,0)", "99999")])
def test_a_float_of_declared_digits_fills_them_and_has_a_zero_of_each_sign(digits: str, largest: str) -> None:
    values = mariadb.edge_values(Column("v", Kind.FLOAT, f"float{digits}"))
    assert {largest, f"-{largest}", "0", "-0e0"} <= set(values)
    assert "3.4028234e38" not in values
    unsigned = mariadb.edge_values(Column("v", Kind.FLOAT, f"float{digits} unsigned"))
    assert not any(value.startswith("-") for value in unsigned)


def test_texts_are_as_long_as_declared_and_no_longer() -> None:
    values = mariadb.edge_values(Column("v", Kind.STRING, "varchar(3)", False, length=3))
    assert "'😀😀😀'" in values
    assert max(len(value) for value in values if value.startswith("'")) <= len("''''''''")


def test_a_text_that_a_mode_of_the_server_would_read_otherwise_goes_as_bytes() -> None:
    values = mariadb.edge_values(Column("v", Kind.STRING, "text"))
    assert "_utf8mb4 x'6261636b5c736c617368'" in values
    assert not any("\\" in value for value in values)


@pytest.mark.parametrize("length", [1, 7, 60])
def test_every_letter_of_a_small_character_set_is_sent(length: int) -> None:
    column = Column("v", Kind.STRING, f"varchar({length})", False, length=length)
    letters = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
    more = [value for value in mariadb.edge_values(column, letters=letters) if value not in mariadb.edge_values(column)]
    assert "".join(value.strip("'") for value in more) == letters
    assert max(map(len, more)) <= length + 2


def test_every_label_of_an_enum_is_sent_and_a_set_empty_and_full() -> None:
    assert mariadb.edge_values(Column("v", Kind.ENUM, "enum('ok','b,c','it''s','')", False)) == (
        "'ok'", "'b,c'", "'it''s'", "''", "0",
    )  # fmt: skip
    assert mariadb.edge_values(Column("v", Kind.SET, "set('x','y')", False)) == ("''", "'x'", "'y'", "'x,y'")


def test_moments_are_cut_to_the_declared_precision() -> None:
    values = postgres.edge_values(Column("v", Kind.DATETIME, "timestamp(3)", precision=3))
    assert "'2026-11-20 10:20:30.123'" in values
    assert "'infinity'" in values
    assert "'2026-11-20 10:20:30'" in mariadb.edge_values(Column("v", Kind.DATETIME, "datetime"))


# ---- rows and blocks ------------------------------------------------------------------------------------------------

TABLE = Table("t", (Column("a", Kind.INTEGER, "int"), Column("b", Kind.STRING, "text")), ("a",))
PROBE = probe_of(TABLE, "probe", {"a": ["1", "2", "3"], "b": ["'x'", "NULL"]})
NUMBERS = Table("n", (Column("a", Kind.STRING, "text"), Column("f", Kind.DOUBLE, "double")))
WITH_NAN = probe_of(NUMBERS, "probe", {"a": ["'NaN'", "'y'", "'z'"], "f": ["'NaN'", "1", "'Infinity'", "NULL"]})


@pytest.mark.parametrize("probe", [PROBE, WITH_NAN], ids=["plain", "with NaN"])
def test_every_value_is_in_a_row_of_every_path_that_takes_it(probe: Probe) -> None:
    for path in ProbePath:
        keys = [key for key in probe.keys if probe.path_of(key) is path]
        for column, values in probe.values.items():
            taken = set(values[: probe.rows_of(path)]) if keys else set()
            assert {probe.value_at(column, key) for key in keys} == taken


def test_no_number_that_json_has_none_for_is_in_the_large_transaction_of_plain_rows() -> None:
    plain = [key for key in WITH_NAN.keys if WITH_NAN.path_of(key) is ProbePath.BATCH]
    assert {WITH_NAN.value_at("f", key) for key in plain} == {"1", "NULL"}
    assert {WITH_NAN.value_at("a", key) for key in plain} == {"'NaN'", "'y'", "'z'"}
    words = [key for key in WITH_NAN.keys if WITH_NAN.path_of(key) is ProbePath.BATCH_WITH_WORDS]
    assert {WITH_NAN.value_at("f", key) for key in words} == {"1", "NULL", "'NaN'", "'Infinity'"}
    assert not PROBE.blocks(ProbePath.BATCH_WITH_WORDS)


@pytest.mark.parametrize("path", [ProbePath.BATCH, ProbePath.BATCH_WITH_WORDS])
def test_a_large_transaction_is_larger_than_what_a_span_sends_as_one_parameter(path: ProbePath) -> None:
    assert sum(WITH_NAN.path_of(key) is path for key in WITH_NAN.keys) > 250


def test_no_two_rows_have_one_key() -> None:
    assert len(set(WITH_NAN.keys)) == len(WITH_NAN.keys)


def test_the_rows_that_are_written_are_those_that_are_compared() -> None:
    single = transactions(PROBE, ProbePath.INSERT, place="p", quoted=quoted)
    assert single[1] == ['INSERT INTO p ("seamline_row", "a", "b") VALUES (5, 2, NULL)']
    assert (PROBE.value_at("a", 5), PROBE.value_at("b", 5)) == ("2", "NULL")


def test_an_update_changes_every_value_into_the_one_that_is_compared() -> None:
    statements = transactions(PROBE, ProbePath.UPDATE, place="p", quoted=quoted)
    assert len(statements) == 2 * PROBE.rows
    assert statements[1] == ['INSERT INTO p ("seamline_row", "a", "b") VALUES (8, 3, \'x\')']
    assert statements[4] == ['UPDATE p SET "a" = 2, "b" = NULL WHERE "seamline_row" = 8']


def test_a_large_transaction_copies_the_first_block_to_all_of_its_own() -> None:
    (statements,) = transactions(PROBE, ProbePath.BATCH, place="p", quoted=quoted)
    assert len(statements) == 100
    assert statements[0] == (
        'INSERT INTO p ("seamline_row", "a", "b") SELECT "seamline_row" + 9, "a", "b" FROM p WHERE "seamline_row" <= 3'
    )
    assert PROBE.keys[-1] == 9 + 300
    assert transactions(PROBE, ProbePath.BATCH_WITH_WORDS, place="p", quoted=quoted) == []


@pytest.mark.parametrize(
    "text",
    [
        "nextval('public.s'::regclass)",
        "(nextval(`bank`.`numbers`) + 1)",
        "NEXT VALUE FOR numbers",
        "'it''s' || lastval()",
    ],
)
def test_a_default_that_draws_from_a_sequence_is_left_out(text: str) -> None:
    assert default_of(text).left_out


@pytest.mark.parametrize(
    "text", ["'nextval(1)'", r"'it\\'' nextval(1)'", "'a''b next value for c'", "my_nextval", "now()", "7"]
)
def test_every_other_default_is_kept_also_one_that_only_speaks_of_a_sequence(text: str) -> None:
    assert not default_of(text).left_out
