"""MariaDB's types as kinds, and what cannot be kept named with its reason."""

from dataclasses import replace

import pytest

from seamline.databases.mysql.columns import ColumnFacts, column_from_facts, table_fault
from seamline.databases.mysql.generated import virtual_fault
from seamline.databases.mysql.table_text import foreign_key_actions, json_columns
from seamline.domain.catalogue import Column, Kind
from seamline.sources.mariadb.catalogue import table_from_facts, unsupported


@pytest.mark.parametrize(
    ("facts", "kind", "numbers"),
    [
        (ColumnFacts("c", "tinyint", "tinyint(1)", precision=3), Kind.INTEGER, (8, 0, 0)),
        (ColumnFacts("c", "tinyint", "tinyint(3) unsigned", precision=3), Kind.INTEGER, (16, 0, 0)),
        (ColumnFacts("c", "mediumint", "mediumint(9)", precision=7), Kind.INTEGER, (32, 0, 0)),
        (ColumnFacts("c", "int", "int(10) unsigned zerofill", precision=10), Kind.INTEGER, (64, 0, 0)),
        (ColumnFacts("c", "bigint", "bigint(20)", precision=19), Kind.INTEGER, (64, 0, 0)),
        (ColumnFacts("c", "bigint", "bigint(20) unsigned", precision=20), Kind.UNSIGNED, (64, 0, 0)),
        (ColumnFacts("c", "decimal", "decimal(20,4)", precision=20, scale=4), Kind.DECIMAL, (0, 20, 4)),
        (ColumnFacts("c", "float", "float(7,3)", precision=7, scale=3), Kind.FLOAT, (0, 0, 0)),
        (ColumnFacts("c", "double", "double", precision=22), Kind.DOUBLE, (0, 0, 0)),
        (ColumnFacts("c", "bit", "bit(1)", precision=1), Kind.BITS, (1, 0, 0)),
        (ColumnFacts("c", "bit", "bit(64)", precision=64), Kind.BITS, (64, 0, 0)),
        (ColumnFacts("c", "char", "char(3)", characters=3, octets=12), Kind.CHAR, (3, 0, 0)),
        (ColumnFacts("c", "varchar", "varchar(80)", characters=80, octets=320), Kind.STRING, (80, 0, 0)),
        (ColumnFacts("c", "varchar", "varchar(9) /*M!100301 COMPRESSED*/", characters=9), Kind.STRING, (9, 0, 0)),
        (ColumnFacts("c", "text", "text", characters=65535, octets=65535), Kind.STRING, (0, 0, 0)),
        (ColumnFacts("c", "longtext", "longtext", characters=2**32 - 1, is_json=True), Kind.JSON, (0, 0, 0)),
        (ColumnFacts("c", "binary", "binary(4)", octets=4), Kind.BINARY, (4, 0, 0)),
        (ColumnFacts("c", "varbinary", "varbinary(9)", octets=9), Kind.BYTES, (9, 0, 0)),
        (ColumnFacts("c", "blob", "blob", octets=65535), Kind.BYTES, (0, 0, 0)),
        (ColumnFacts("c", "date", "date"), Kind.DATE, (0, 0, 0)),
        (ColumnFacts("c", "datetime", "datetime(6)", fraction=6), Kind.DATETIME, (0, 6, 0)),
        (ColumnFacts("c", "timestamp", "timestamp(3)", fraction=3), Kind.INSTANT, (0, 3, 0)),
        (ColumnFacts("c", "time", "time", fraction=0), Kind.TIME, (0, 0, 0)),
        (ColumnFacts("c", "datetime", "datetime /* mariadb-5.3 */"), Kind.DATETIME, (0, 0, 0)),
        (ColumnFacts("c", "year", "year(4)"), Kind.YEAR, (0, 0, 0)),
        (ColumnFacts("c", "enum", "enum('a','b,c')", characters=3), Kind.ENUM, (0, 0, 0)),
        (ColumnFacts("c", "set", r"set('x\\y','z')", characters=3), Kind.SET, (0, 0, 0)),
        (ColumnFacts("c", "uuid", "uuid"), Kind.UUID, (0, 0, 0)),
    ],
)
def test_each_type_of_mariadb_has_its_kind(facts: ColumnFacts, kind: Kind, numbers: tuple[int, int, int]) -> None:
    assert unsupported(facts) == ""
    assert column_from_facts(facts) == Column("c", kind, facts.column_type, True, *numbers)


@pytest.mark.parametrize(
    ("data_type", "column_type", "said"),
    [
        ("year", "year(2)", "MODIFY it to YEAR"),
        ("time", "time /* mariadb-5.3 */", "ALTER TABLE … FORCE"),
        ("inet4", "inet4", "from other bytes"),
        ("inet6", "inet6", "from other bytes"),
        ("point", "point", "geometry"),
        ("vector", "vector(3)", "not tested"),
        ("something", "something", "not known"),
    ],
)
def test_a_type_that_cannot_be_kept_exactly_is_named_with_its_reason(
    data_type: str, column_type: str, said: str
) -> None:
    table, faults = table_from_facts("t", [ColumnFacts("c", data_type, column_type)], ())
    assert table.columns == ()
    (fault,) = faults
    assert fault.startswith(f"`t`.`c` {column_type}: ")
    assert said in fault


@pytest.mark.parametrize("name", ["ujis", "eucjpms", "of_tomorrow"])
def test_a_character_set_whose_letters_may_change_on_the_way_is_named(name: str) -> None:
    facts = ColumnFacts("c", "varchar", "varchar(9)", characters=9, character_set=name)
    assert f"the character set {name}" in unsupported(facts)
    assert not unsupported(replace(facts, character_set="latin1"))


TYPES = {
    **{"n": "int", "born": "date", "dt": "datetime", "memo": "varchar", "na`me": "varchar", "doc": "longtext"},
    **{"ts": "timestamp", "tm": "time"},
}


@pytest.mark.parametrize(
    "expression",
    [
        "`n` * 2",
        r"concat(ucase(`na``me`),'it\'s','curdate()','q\\x',_utf8mb4'now()',`memo`)",
        "case when `n` > 5 and `n` <> 7 or `n` = 0 then 1 else `n` DIV 2 end",
        "`n` / 3 + -1.5e3 - 0x41 ^ 0x05 | ~`n` << 2",
        "json_unquote(json_extract(`doc`,'$.a'))",
        "trim(both 'x' from `memo`)",
        "if(`n` is null,NULL,nullif(`memo`,''))",
        "`n` in (1,2,3) is true and `n` <=> 1 and (`n`,`n`) = (1,2)",
        "`memo` like 'a%' escape '|'",
        "`born` + interval 30 day",
        "year(`born`) * 100 + extract(year_month from `dt`)",
        "timestampdiff(YEAR,`born`,DATE'2020-01-01')",
        "cast(`n` as char(10) charset utf8mb4)",
        "cast(`memo` as decimal(10,2)) + cast(`memo` as signed)",
        "convert(`memo` using latin1) collate latin1_bin",
        "if(`ts` is null,1,NULL)",
        "`tm` is not null",
        "interval(`n`,1,2)",
    ],
)
def test_a_virtual_column_that_is_a_function_of_its_row_is_kept(expression: str) -> None:
    """The expressions are as the server (11.4.5) prints them."""
    assert virtual_fault(expression, own_type="int", types=TYPES) == ""


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("timestampdiff(YEAR,`born`,curdate())", "`curdate` in its expression"),
        ("cast(`ts` as date)", "reads `ts`, a TIMESTAMP, which each session sees in its own time zone"),
        ("`tm`", "reads `tm`, a TIME, which the server may complete with the day of now"),
        ("nullif(`n`,`ts`) is null", "reads `ts`"),
        ("date_format(`born`,'%W')", "`date_format`"),
        ("`memo` regexp 'a'", "`regexp`"),
        ("cast(`dt` as time)", "`time`"),
        ("cast(`dt` as datetime)", "`datetime`"),
        ("TIME'10:00:00'", "`time`"),
        ("current_timestamp()", "`current_timestamp`"),
        ("coalesce(`memo`,database())", "`database`"),
        ("default(`memo`)", "`default`"),
        ("week(`born`)", "`week` in its expression"),
        ("@`x`", "holds @"),
        ("@@server_id", "holds @"),
        ("left ", "`left`"),
        ("`gone`", "reads `gone`, which is no column of the table"),
        ("'never closed", "holds '"),
        ("", "the server does not show its expression"),
    ],
)
def test_a_virtual_column_that_may_be_no_function_of_its_row_is_reported_with_the_reason(
    expression: str, said: str
) -> None:
    fault = virtual_fault(expression, own_type="int", types=TYPES)
    assert said in fault
    assert fault.startswith("it is VIRTUAL, which is computed for each reader, and ")


def test_a_virtual_timestamp_is_made_by_the_session_s_time_zone() -> None:
    assert "is a TIMESTAMP, which" in virtual_fault("`dt`", own_type="timestamp", types=TYPES)


def test_a_virtual_column_is_judged_beside_the_columns_of_its_table() -> None:
    columns = [
        ColumnFacts("ts", "timestamp", "timestamp"),
        ColumnFacts("day", "date", "date", virtual_of="cast(`ts` as date)"),
    ]
    table, (fault,) = table_from_facts("t", columns, ())
    assert [column.name for column in table.columns] == ["ts"]
    assert fault.startswith("`t`.`day` date: it is VIRTUAL")
    assert table_from_facts("t", [columns[0], replace(columns[1], virtual_of=None)], ())[1] == []


def test_the_key_keeps_its_declared_order() -> None:
    facts = [ColumnFacts(name, "int", "int(11)", nullable=False) for name in ("a", "b")]
    table, faults = table_from_facts("t", facts, ("b", "a"), rows_estimate=5)
    assert faults == []
    assert table.key == ("b", "a")
    assert table.rows_estimate == 5


@pytest.mark.parametrize("data_type", ["float", "double"])
def test_a_key_whose_equal_values_may_be_written_differently_is_refused(data_type: str) -> None:
    """0.0 and -0.0 are one key to a server, and two in the log."""
    columns = [ColumnFacts("id", "int", "int(11)"), ColumnFacts("k", data_type, data_type)]
    _, (fault,) = table_from_facts("t", columns, ("id", "k"))
    assert fault == f"`t`.`k` {data_type}: a floating point number is no exact key"
    assert table_from_facts("t", columns, ("id",))[1] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("account", ""),
        ("acount", "there is no table `acount`, did you mean `account`?"),
        ("zzz", "or the reader has no SELECT on it"),
        ("active", "`active` is a view: name the tables it reads"),
        ("history", "is system-versioned"),
        ("numbers", "is a sequence"),
        ("odd", "is of type ODD"),
    ],
)
def test_a_name_that_is_no_table_is_reported_with_the_reason(name: str, said: str) -> None:
    listed = {
        "account": ("BASE TABLE", 1),
        "active": ("VIEW", 0),
        "history": ("SYSTEM VERSIONED", 0),
        "numbers": ("SEQUENCE", 0),
        "odd": ("ODD", 0),
    }
    fault = table_fault(name, listed)
    assert (said in fault) if said else not fault


TEXT = """CREATE TABLE `child` (
  `id` int(11) NOT NULL COMMENT 'CHECK (json_valid(`id`)), it''s \\'odd\\'',
  `do``c` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`do``c`)),
  `other` longtext DEFAULT NULL CHECK (octet_length(`other`) > 1),
  `last` longtext COMMENT 'a, b' CHECK (json_valid(`last`)),
  PRIMARY KEY (`id`),
  CONSTRAINT `fk 1` FOREIGN KEY (`parent`) REFERENCES `account` (`id`) ON DELETE CASCADE,
  CONSTRAINT `fk 2` FOREIGN KEY (`a`, `b`) REFERENCES `account` (`x`, `y`) ON DELETE SET NULL ON UPDATE NO ACTION,
  CONSTRAINT `fk 3` FOREIGN KEY (`parent`) REFERENCES `bank`.`account` (`id`),
  CONSTRAINT `check` CHECK (`id` > 1)
) ENGINE=InnoDB COMMENT='CONSTRAINT `no` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE'"""


def test_json_columns_are_reported_by_their_own_check() -> None:
    assert json_columns(TEXT) == {"do`c", "last"}


@pytest.mark.parametrize("name", ["payer's note", "three ' of ' them '", 'so "called"'])
def test_a_quote_in_a_name_hides_neither_json_nor_what_a_foreign_key_does(name: str) -> None:
    text = TEXT.replace("  `other`", f"  `{name}` int(11),\n  `other`")
    assert json_columns(text) == json_columns(TEXT)
    assert foreign_key_actions(text) == foreign_key_actions(TEXT)


def test_foreign_keys_are_read_with_their_actions() -> None:
    assert foreign_key_actions(TEXT) == (
        ("fk 1", "CASCADE", "RESTRICT"),
        ("fk 2", "SET NULL", "NO ACTION"),
        ("fk 3", "RESTRICT", "RESTRICT"),
    )
