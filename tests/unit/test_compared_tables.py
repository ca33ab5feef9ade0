"""Two tables that nobody of ours has made: which of their types can be compared, and in what form."""

import pytest

from seamline.domain.canonical import exact_columns, is_folded_key
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.compared_tables import paired, unlike


def table(*columns: Column, key: tuple[str, ...] = ()) -> Table:
    return Table("t", columns, key)


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        (Column("c", Kind.DECIMAL, "a", 0, 0, 9, 4), Column("c", Kind.DECIMAL, "b", 0, 0, 9, 2), "rounded"),
        (Column("c", Kind.DECIMAL, "a", precision=20), Column("c", Kind.DECIMAL, "numeric"), "rounded"),
        (Column("c", Kind.DATETIME, "datetime"), Column("c", Kind.INSTANT, "timestamptz"), "no common text"),
        (Column("c", Kind.JSON, "json"), Column("c", Kind.JSONB, "jsonb"), "no common text"),
        (Column("c", Kind.STRING, "varchar(9)"), Column("c", Kind.INTEGER, "int"), "no common text"),
        (Column("c", Kind.UUID, "uuid"), Column("c", Kind.CHAR, "char(36)"), "no common text"),
        (Column("c", Kind.NATIVE, "inet", native="inet"), Column("c", Kind.NATIVE, "cidr", native="cidr"), "two types"),
        (Column("c", Kind.STRING, "text"), Column("d", Kind.STRING, "text"), "not in the destination"),
    ],
)  # fmt: skip
def test_types_whose_equal_values_have_other_texts_are_named(mine: Column, theirs: Column, why: str) -> None:
    found = unlike(table(mine), table(theirs))
    assert found and why in found[0]


@pytest.mark.parametrize(
    ("mine", "theirs", "common"),
    [
        (Column("c", Kind.INTEGER, "tinyint(1)", length=8), Column("c", Kind.BOOLEAN, "boolean"), Kind.BOOLEAN),
        (Column("c", Kind.UNSIGNED, "a", length=64), Column("c", Kind.DECIMAL, "b", precision=20), Kind.UNSIGNED),
        (Column("c", Kind.CHAR, "char(3)", length=3), Column("c", Kind.STRING, "varchar(9)", length=9), Kind.CHAR),
        (Column("c", Kind.ENUM, "enum"), Column("c", Kind.STRING, "text"), Kind.ENUM),
        (Column("c", Kind.BINARY, "binary(4)", length=4), Column("c", Kind.BYTES, "bytea"), Kind.BINARY),
        (Column("c", Kind.TIME, "time(6)"), Column("c", Kind.TIME_OF_DAY, "time", precision=6), Kind.TIME_OF_DAY),
        (Column("c", Kind.DATETIME, "datetime"), Column("c", Kind.DATETIME, "timestamp", precision=6), Kind.DATETIME),
    ],
)  # fmt: skip
def test_types_that_hold_the_same_are_compared_each_as_its_side_has_it(
    mine: Column, theirs: Column, common: Kind
) -> None:
    for one, other in ((mine, theirs), (theirs, mine)):
        assert unlike(table(one), table(other)) == []
        pair = paired(table(one), table(other))
        assert pair.common.column("c").kind is common
        assert (pair.source.column("c").kind, pair.destination.column("c").kind) == (one.kind, other.kind)


def test_a_value_that_only_one_side_can_hold_is_never_planted() -> None:
    mine = Column("n", Kind.INTEGER, "bigint", length=64, nullable=True)
    theirs = Column("n", Kind.INTEGER, "smallint", length=16, nullable=False)
    common = paired(table(mine), table(theirs)).common.column("n")
    assert (common.length, common.nullable) == (16, False)


def test_both_sides_divide_the_rows_by_the_source_s_key() -> None:
    mine = table(
        Column("id", Kind.UNSIGNED, "bigint unsigned", length=64), Column("v", Kind.STRING, "text"), key=("id",)
    )
    theirs = table(Column("v", Kind.STRING, "text"), Column("id", Kind.DECIMAL, "numeric(20,0)", precision=20))
    assert unlike(mine, theirs) == []
    pair = paired(mine, theirs)
    assert [one.name for one in pair.destination.columns] == ["id", "v"]
    assert is_folded_key(pair.source) and is_folded_key(pair.destination) and pair.destination.key == ("id",)
    key = table(Column("id", Kind.DECIMAL, "decimal(20,0)", precision=20), key=("id",))
    assert "a key of both" in unlike(key, table(Column("id", Kind.INTEGER, "bigint", length=64)))[0]


def test_a_float_that_one_side_prints_otherwise_is_inexact_on_both() -> None:
    postgres, mariadb = Column("f", Kind.DOUBLE, "double precision"), Column("f", Kind.DOUBLE, "double")
    for one, other in ((postgres, mariadb), (mariadb, postgres)):
        pair = paired(table(one), table(other))
        assert not any(exact_columns(side) for side in (pair.common, pair.source, pair.destination))
    pair = paired(table(postgres), table(postgres))
    assert all(exact_columns(side) for side in (pair.common, pair.source, pair.destination))
