"""How tables are made in MariaDB: every row fits and every key is an index. The owner's script is that of the page."""

from dataclasses import replace
from pathlib import Path

from seamline.domain.catalogue import Column, Kind, Table
from seamline.kinds.logins import DestinationLogins
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.grants import grant_script
from seamline.sinks.relational.types import COLUMNS_MAX, advice, column_types, refusals

ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)
TEXT = Column("t", Kind.STRING, "text", nullable=False)


def varchars(count: int, length: int) -> tuple[Column, ...]:
    return tuple(Column(f"c{n}", Kind.STRING, f"varchar({length})", length=length) for n in range(count))


def test_a_text_without_a_length_is_a_longtext_and_as_a_key_what_an_index_holds() -> None:
    assert column_types(Table("t", (ID, TEXT), ("id",)), MARIADB)["t"] == "longtext"
    assert column_types(Table("t", (ID, TEXT), ("t",)), MARIADB)["t"] == "varchar(767)"
    both = Table("t", (TEXT, replace(TEXT, name="u")), ("t", "u"))
    assert list(column_types(both, MARIADB).values()) == ["varchar(383)", "varchar(383)"]
    assert list(refusals(both, MARIADB)) == []
    assert [what.partition(" holds ")[2][:14] for what, _ in advice(both, MARIADB)] == ["383 characters"] * 2
    plain = Table("t", (replace(ID, name="n"), replace(TEXT, length=40)), ("t", "n"))
    assert column_types(plain, MARIADB)["t"] == "varchar(40)"
    assert list(advice(plain, MARIADB)) == []


def test_what_a_row_has_no_place_for_becomes_a_longtext_the_largest_first() -> None:
    table = Table("t", (ID, *varchars(3, 4_000), *varchars(1, 9_000)[:0], Column("big", Kind.STRING, "", length=9_000)))
    types = column_types(replace(table, key=("id",)), MARIADB)
    assert types["big"] == "longtext"
    assert types["c0"] == "varchar(4000)"
    assert column_types(Table("t", (ID, *varchars(1, 15_000)), ("id",)), MARIADB)["c0"] == "longtext"


def test_texts_that_fill_a_page_may_lie_aside() -> None:
    """A column that may have more than 255 bytes may; it takes less of the page than one that may not."""
    few, many = (Table("t", (ID, *varchars(count, 60)), ("id",)) for count in (20, 60))
    assert column_types(few, MARIADB)["c0"] == "varchar(60)"
    assert column_types(many, MARIADB)["c0"] == "varchar(64)"
    assert list(refusals(many, MARIADB)) == []


def test_too_many_columns_are_refused() -> None:
    wide = Table("wide", (ID, *varchars(COLUMNS_MAX, 3)), ("id",))
    assert [what for what, _ in refusals(wide, MARIADB)][0].startswith("table wide has 1,006 columns")


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    assert f"```sql\n{grant_script('bank', logins=DestinationLogins(), server='MariaDB')}```" in page


def test_one_login_for_both_roles_gets_no_second_one() -> None:
    script = grant_script("my_bank", logins=DestinationLogins("one", "one"), server="MariaDB")
    assert script.count("CREATE USER") == 1
    assert r"ON `my\_bank`.* TO 'one'@'%'" in script
    assert r"ON `my\_bank\_%`.* TO 'one'@'%'" in script
