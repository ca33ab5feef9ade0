"""Every kind of record that MariaDB's connector writes, as it wrote it (3.5.0.Final, MariaDB 11.4.5)."""

import json
from pathlib import Path
from typing import Any

import pytest

from seamline.databases.mysql.binlog_decoder import altered_tables, dropped_database, leaves_values_alone
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import WHOLE_DATABASE, LogRecord, PrecedingTransaction, RecordKind, RowChange, touched
from seamline.domain.table_places import TablePlaces
from seamline.sources.mariadb.decode import MariaDbDecoder
from seamline.sources.mariadb.position import BinlogPosition
from tests.log_messages import Message, decode

RECORDS: dict[str, tuple[bytes | None, bytes]] = {}
for line in Path(__file__).with_name("mariadb_records.jsonl").read_text(encoding="utf-8").splitlines():
    entry = json.loads(line)
    RECORDS[entry["name"]] = (entry["key"].encode() if entry["key"] else None, entry["value"].encode())

OFFSET = 77


def decoded(key: bytes | None, value: bytes | None, *, name: str = "seamline-core_bank") -> LogRecord:
    (record,) = decode(MariaDbDecoder(name, TablePlaces("bank")), Message(OFFSET, key, value))
    return record


def of(name: str) -> LogRecord:
    return decoded(*RECORDS[name])


def altered(name: str, **fields: Any) -> bytes:
    document = json.loads(RECORDS[name][1])
    for path, value in fields.items():
        *parents, last = path.split("__")
        place = document
        for parent in parents:
            place = place[parent]
        place[last] = value
    return json.dumps(document, separators=(",", ":")).encode()


def test_a_begin_of_ours_names_the_bracket_before_it_and_others_name_none() -> None:
    ours = decoded(None, altered("begin", seamline_follows="END 0-7-3086"))
    assert ours.follows == PrecedingTransaction(BinlogPosition("0-7-3086"), has_end=True)
    alone = decoded(None, altered("begin", seamline_follows="BEGIN 0-7-3086 2"))
    assert alone.follows == PrecedingTransaction(BinlogPosition("0-7-3086"), has_end=False, records=2)
    for first in (None, ""):
        assert decoded(None, altered("begin", seamline_follows=first)).follows is None
    with pytest.raises(LogCorrupted, match="BEGIN of transaction 'elsewhere'"):
        decoded(None, altered("begin", seamline_follows="END elsewhere"))


EXPECTED = {
    "begin": LogRecord(
        OFFSET, RecordKind.BEGIN, "0-7-3087", BinlogPosition("0-7-3087"), ts_ms=1795224400000, is_whole=True
    ),
    "heartbeat": LogRecord(OFFSET, RecordKind.HEARTBEAT, ts_ms=1795224433517),
    "insert": LogRecord(
        OFFSET,
        RecordKind.ROWS,
        "0-7-3087",
        BinlogPosition("0-7-3087", "binlog.000001", 136819703),
        [RowChange(OFFSET, "account", "c", b'{"id":1}', after=b'{"id":1,"a":1,"memo":"x"}')],
    ),
    "end": LogRecord(
        OFFSET,
        RecordKind.END,
        "0-7-3087",
        position=BinlogPosition("0-7-3087"),
        total=2,
        counts={"account": 2},
        ts_ms=1795224433000,
    ),
    "truncate": LogRecord(
        OFFSET,
        RecordKind.TRUNCATE,
        "0-7-3093",
        BinlogPosition("0-7-3093", "binlog.000001", 136821322),
        table="account",
        tables=("account",),
        ts_ms=1795224433000,
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_record_is_read_whole(name: str) -> None:
    assert of(name) == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "op", "key", "before", "after"),
    [
        ("update", "u", b'{"id":2}', b'{"id":2,"a":2,"memo":null}', b'{"id":2,"a":5,"memo":null}'),
        ("delete", "d", b'{"id":2}', b'{"id":2,"a":5,"memo":null}', None),
        ("key change, old key", "d", b'{"id":1}', b'{"id":1,"a":1,"memo":"x"}', None),
        ("key change, new key", "c", b'{"id":10}', None, b'{"id":10,"a":1,"memo":"x"}'),
        ("keyless insert", "c", None, None, b'{"a":1,"memo":"m"}'),
        ("keyless delete", "d", None, b'{"a":1,"memo":"m"}', None),
    ],
)
def test_row_images_and_keys_stay_the_bytes_they_were(
    name: str, op: str, key: bytes | None, before: bytes | None, after: bytes | None
) -> None:
    (row,) = of(name).rows
    assert (row.op, row.key, row.before, row.after) == (op, key, before, after)


def test_rows_of_one_transaction_that_follow_each_other_are_one_record() -> None:
    names = ("key change, old key", "key change, new key", "update", "heartbeat", "update")
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"))
    records = decode(decoder, *(Message(OFFSET + n, *RECORDS[name]) for n, name in enumerate(names)))
    assert [[row.op for row in record.rows] for record in records] == [["d", "c"], ["u"], [], ["u"]]
    assert [(record.offset, record.end) for record in records] == [(77, 79), (79, 80), (80, 81), (81, 82)]
    assert records[0].position == BinlogPosition("0-7-3088", "binlog.000001", 136819988)
    assert records[1].position is records[3].position, "also behind a heartbeat: where its first row stands"


def test_a_truncate_ends_the_rows_before_it() -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"))
    values = (RECORDS["insert"][1], altered("truncate", source__gtid="0-7-3087"), RECORDS["insert"][1])
    records = decode(decoder, *(Message(OFFSET + n, b"{}", value) for n, value in enumerate(values)))
    assert [record.kind for record in records] == [RecordKind.ROWS, RecordKind.TRUNCATE, RecordKind.ROWS]
    assert [record.end for record in records] == [78, 79, 80]


@pytest.mark.parametrize("op", ["c", "u"])
def test_an_image_that_is_null_is_none_and_not_a_text(op: str) -> None:
    ((row,),) = (record.rows for record in [decoded(b"{}", altered("update", op=op, after=None, before=None))])
    assert (row.op, row.before, row.after) == (op, None, None)


def test_what_comes_before_a_record_of_no_capture_is_reported() -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank"))
    records: list[LogRecord] = []
    with pytest.raises(LogCorrupted, match=f"offset {OFFSET + 1}: an unknown record"):
        decoder.decode([Message(OFFSET, *RECORDS["insert"]), Message(OFFSET + 1, None, b"{}")], records)
    assert records == [EXPECTED["insert"]]


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("alter", ("account",)),
        ("rename", ("audit_b", "other2", "audit")),
        ("rename by alter", ("audit_b", "audit")),
        ("rename from another database", ("audit",)),
        ("drop one of two", ("t3", "account")),
        ("create index", ()),
        ("odd table name", ("we.ird, n`ame",)),
    ],
)
def test_ddl_names_its_tables_the_old_name_of_a_rename_too(name: str, tables: tuple[str, ...]) -> None:
    record = of(name)
    assert record.kind is RecordKind.DDL
    assert record.tables == tables
    assert record.statement == json.loads(RECORDS[name][1])["ddl"]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("RENAME TABLE `a``b` TO c", [("", "a`b")]),
        ("rename table a to b, bank.c to other.d,\n `e, f` wait 5 to g", [("", "a"), ("bank", "c"), ("", "e, f")]),
        ("rename\ntables if exists `a  a` nowait to b", [("", "a  a")]),
        ("rename table `it's` to a, `/*b*/` to `it's c`", [("", "it's"), ("", "/*b*/")]),
        ("rename user a to b", []),
        ("-- tidy, don't ask\nrename table account to old", [("", "account")]),
        ("# tidy\nrename table account to old", [("", "account")]),
        ("set statement lock_wait_timeout=1 for rename table account to old", [("", "account")]),
        ("alter table a comment \"it's\", exchange partition p with table b, comment 'x'", [("", "a"), ("", "b")]),
        ('alter table audit comment "replaces table account"', [("", "audit")]),
        ("alter table audit add x int -- see table account", [("", "audit")]),
        ("alter /* table x */ online table IF EXISTS bank . account rename to y", [("bank", "account")]),
        ("alter table konto_ä add x int comment 'table y, it''s z'", [("", "konto_ä")]),
        ("alter table a exchange partition p with table bank.b", [("", "a"), ("bank", "b")]),
        ("create table x like y", []),
        ("CREATE OR REPLACE TABLE account (id INT)", [("", "account")]),
        ("set statement a=1 for create or replace table `bank`.account like x", [("bank", "account")]),
        ("create or replace view account as select 1", []),
        ("DROP TABLE IF EXISTS a, `bank`.`b` CASCADE", [("", "a"), ("bank", "b")]),
        ("drop temporary table x", []),
        ('RENAME TABLE "account" TO "accounts"', [("", "account")]),
        ('rename table"a""b"to c,"bank"."d"to e', [("", 'a"b'), ("bank", "d")]),
        ('ALTER TABLE "bank" . "account" ADD x int COMMENT "see table audit"', [("bank", "account")]),
        ("alter table `see table audit` add `, drop table x` int", [("", "see table audit")]),
        ("DROP INDEX `PRIMARY` ON account", [("", "account")]),
        ("drop /* x */ index if exists `primary` on `bank` . `account` wait 5", [("bank", "account")]),
        ('set statement lock_wait_timeout=1 for drop index "PRIMARY" on account', [("", "account")]),
        ("drop index i on account", []),
        ("drop index `on account` on `primary`", []),
        ("CREATE OR REPLACE INDEX i ON account (memo)", []),
        ("create unique index i on account (memo)", []),
    ],
)
def test_every_table_that_a_statement_takes_away_or_changes_is_found_in_its_text(
    statement: str, named: list[tuple[str, str]]
) -> None:
    assert list(altered_tables(statement)) == named


@pytest.mark.parametrize(
    ("statement", "database"),
    [
        ("DROP DATABASE bank", "bank"),
        ("drop /* all */ schema if exists `ba``nk`", "ba`nk"),
        ("CREATE OR REPLACE DATABASE bank CHARACTER SET utf8mb4", "bank"),
        ("create database bank", ""),
        ("DROP TABLE bank", ""),
    ],
)
def test_a_database_that_a_statement_takes_away_is_found_in_its_text(statement: str, database: str) -> None:
    assert dropped_database(statement) == database


HARMLESS = (
    "ALTER TABLE account ADD INDEX by_owner (owner, balance DESC) USING BTREE COMMENT 'fast'",
    "alter online table if exists `bank`.`account` wait 5 add key if not exists (a), add unique (b), lock=none",
    "ALTER TABLE account ADD CONSTRAINT unique_owner UNIQUE KEY u (owner), ADD FULLTEXT (memo), ALGORITHM INPLACE",
    "ALTER TABLE account DROP INDEX i, DROP KEY IF EXISTS `primary_one`, DROP CONSTRAINT c, DROP FOREIGN KEY f",
    "ALTER TABLE account RENAME INDEX a TO b, ALTER INDEX b NOT IGNORED",
    "ALTER TABLE account COMMENT 'add column x int, drop column y' /* , drop z */",
    'ALTER TABLE account COMMENT="it is, and was"',
    "ALTER TABLE account ALTER balance SET DEFAULT 7, ALTER COLUMN `a,b` DROP DEFAULT",
    "ALTER TABLE account ALTER COLUMN mark SET DEFAULT (concat('a', uuid(), \"b\"))",
    "ALTER TABLE account AUTO_INCREMENT=7",
    "ALTER TABLE account FORCE",
    "ALTER TABLE account ADD CHECK (balance > 0 AND owner IN ('a', 'b'))",
    "ALTER TABLE account ADD CONSTRAINT positive CHECK (balance > 0), ADD CONSTRAINT CHECK (1)",
    "ALTER TABLE account STATS_PERSISTENT = 1 ENGINE=InnoDB ROW_FORMAT DYNAMIC, STATS_SAMPLE_PAGES=DEFAULT",
    "SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE account ENGINE=InnoDB",
    "ALTER TABLE account DISABLE KEYS",
    "CREATE OR REPLACE UNIQUE INDEX i ON account (a)",
    "DROP INDEX i ON account",
)
HARMFUL = (
    "ALTER TABLE account ADD INDEX i (a), ADD COLUMN b INT",
    "ALTER TABLE account ADD COLUMN b INT, ADD INDEX i (a)",
    "ALTER TABLE account COMMENT 'x', MODIFY a BIGINT",
    "ALTER TABLE account FORCE, RENAME TO account_old",
    "ALTER TABLE account ADD unique_one INT",
    "ALTER TABLE account ADD `index` INT",
    "ALTER TABLE account ADD (x INT)",
    "ALTER TABLE account ADD PRIMARY KEY (a)",
    "ALTER TABLE account ADD CONSTRAINT c PRIMARY KEY (a)",
    "ALTER TABLE account ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES b (a) ON DELETE CASCADE",
    "ALTER TABLE account DROP PRIMARY KEY, ADD INDEX (id)",
    "ALTER TABLE account DROP INDEX `PRIMARY`",
    "ALTER TABLE account DROP CONSTRAINT primary",
    "DROP INDEX `primary` ON account",
    "ALTER TABLE account DROP balance",
    "ALTER TABLE account DROP COLUMN `key`",
    "ALTER TABLE account RENAME COLUMN a TO b",
    "ALTER TABLE account CHANGE a b INT",
    # It deletes the rows that are in the way, and no log has that.
    "ALTER IGNORE TABLE account ADD UNIQUE (owner)",
    "ALTER TABLE account ENGINE=MyISAM",
    "ALTER TABLE account ENGINE=InnoDB, CONVERT TO CHARACTER SET utf8mb4",
    "ALTER TABLE account ADD INDEX (a) DROP PARTITION p",
    "ALTER TABLE account FORCE PARTITION BY HASH (id)",
    "ALTER TABLE account TRUNCATE PARTITION p",
    "ALTER TABLE account DISCARD TABLESPACE",
    "ALTER TABLE account ADD SYSTEM VERSIONING",
    # Under NO_BACKSLASH_ESCAPES the first text ends at the second quote.
    r"ALTER TABLE account COMMENT '\', ADD COLUMN x INT COMMENT '''",
    "ALTER TABLE account /*!50000 ADD COLUMN b INT, */ FORCE",
    "ALTER TABLE account /*M!100100 ADD COLUMN b INT, */ FORCE",
    "ALTER TABLE account",
    "RENAME TABLE account TO b",
    "CREATE OR REPLACE TABLE account (id INT)",
)


@pytest.mark.parametrize("statement", HARMLESS)
def test_a_statement_that_leaves_every_stored_value_alone_alters_no_table(statement: str) -> None:
    assert leaves_values_alone(statement)
    assert touched(decoded(None, altered("alter", ddl=statement)), ("account",)) == ()


@pytest.mark.parametrize("statement", HARMFUL)
def test_a_statement_that_is_not_known_to_leave_the_values_alone_stops_the_stream_of_its_table(statement: str) -> None:
    assert not leaves_values_alone(statement)
    assert touched(decoded(None, altered("alter", ddl=statement)), ("account",)) == ("account",)


def test_a_database_that_is_dropped_takes_every_table_with_it() -> None:
    ours, others = (
        decoded(None, altered("create index", ddl=f"DROP DATABASE {name}", tableChanges=[], source__table=None))
        for name in ("bank", "other")
    )
    assert touched(ours, ("account", "audit")) == ("account", "audit")
    assert touched(others, ("account", "audit")) == ()


def test_a_table_is_touched_whatever_case_a_statement_writes_it_in() -> None:
    """Under lower_case_table_names = 1 the server takes them for one, and the log has the statement as it was typed."""
    renamed, dropped = (
        decoded(None, altered("create index", ddl=ddl, tableChanges=[], source__table=None))
        for ddl in ("RENAME TABLE Bank.Account TO Account_old", "DROP DATABASE BANK")
    )
    assert touched(renamed, ("account", "audit")) == ("account",)
    assert touched(renamed, ("ACCOUNT", "account")) == ("ACCOUNT", "account")
    # A server that holds both knows which one it means.
    assert touched(renamed, ("Account", "account")) == ("Account",)
    assert touched(dropped, ("account", "audit")) == ("account", "audit")


def test_ddl_names_the_table_of_each_pair_of_a_rename() -> None:
    value = altered("rename", ddl="rename table elsewhere.x to bank.y, account to old, audit to audit_b")
    assert decoded(None, value).tables == ("audit_b", "other2", "account", "audit")


def test_what_a_recovery_start_says_of_structures_is_no_ddl() -> None:
    records = altered("alter", source__gtid=None, source__snapshot="true")
    assert decoded(None, records).kind is RecordKind.HEARTBEAT


def test_an_end_without_captured_rows_counts_nothing() -> None:
    record = of("end of nothing captured")
    assert (record.total, record.counts) == (0, {})


def test_a_table_name_with_a_dot_keeps_it_in_the_counts() -> None:
    value = altered("end", data_collections=[{"data_collection": "bank.a.b", "event_count": 2}])
    assert decoded(None, value).counts == {"a.b": 2}


@pytest.mark.parametrize("name", ["insert", "truncate", "alter"])
def test_a_record_of_another_source_is_named_with_its_offset(name: str) -> None:
    with pytest.raises(LogCorrupted, match=r"offset 77: a record of source 'seamline-core_bank'"):
        decoded(*RECORDS[name], name="seamline-other")


@pytest.mark.parametrize(
    "value",
    [
        altered("insert", source__db="other"),
        altered("truncate", source__db="other"),
        altered("end", data_collections=[{"data_collection": "other.account", "event_count": 2}]),
    ],
)
@pytest.mark.parametrize(("elsewhere", "called"), [((), "other.account"), ((("konto", "other.account"),), "konto")])
def test_a_table_of_another_database_is_called_as_the_sync_calls_it(
    value: bytes, elsewhere: tuple[tuple[str, str], ...], called: str
) -> None:
    decoder = MariaDbDecoder("seamline-core_bank", TablePlaces("bank", elsewhere))
    (record,) = decode(decoder, Message(OFFSET, None, value))
    assert {*(row.table for row in record.rows), *record.tables, *(record.counts or {})} == {called}


def altered_in(database: str, statement: str) -> tuple[str, ...]:
    """What a statement alters of three tables, in a session of this database."""
    places = TablePlaces("bank", [("hr_account", "hr.account"), ("deal", "bank.trade")])
    value = altered("alter", ddl=statement, tableChanges=[], source__db=database, source__table=None)
    (record,) = decode(MariaDbDecoder("seamline-core_bank", places), Message(OFFSET, None, value))
    return record.tables


def test_the_id_of_a_table_with_a_quote_in_its_name_names_that_table() -> None:
    changes = [{"type": "CREATE", "id": '"bank"."a ""new"" deal"'}]
    value = altered("alter", ddl="CREATE TABLE other (id int)", tableChanges=changes, source__table=None)
    (record,) = decode(MariaDbDecoder("seamline-core_bank", TablePlaces("bank")), Message(OFFSET, None, value))
    assert 'a "new" deal' in record.tables


def test_a_statement_alters_the_table_of_the_database_that_it_names_or_was_typed_in() -> None:
    assert altered_in("bank", "ALTER TABLE account ADD x int") == ("account",)
    assert altered_in("hr", "ALTER TABLE account ADD x int") == ("hr_account",)
    assert altered_in("bank", "ALTER TABLE HR.Account ADD x int") == ("HR.Account", "hr_account"), "in either case"
    assert altered_in("hr", "ALTER TABLE `bank`.`trade` ADD x int") == ("deal",)
    assert altered_in("other", "ALTER TABLE account ADD x int") == ()
    # The record names the database that the table goes to.
    assert set(altered_in("hr", "RENAME TABLE account TO hr.old")) == {"account", "hr_account"}
    assert altered_in("bank", "DROP DATABASE hr") == WHOLE_DATABASE
    assert altered_in("bank", "DROP DATABASE other") == ()


@pytest.mark.parametrize(
    "value",
    [
        b"garbage",
        b"",
        b"{}",
        b"[]",
        b'{"before":1}',
        b'{"ts_ms":"x"}',
        b'{"something":1}',
        RECORDS["insert"][1][:-20],
        altered("insert", op="r"),
        altered("insert", source__file="nonsense"),
        altered("insert", source__gtid=None),
        altered("begin", id="5:77"),
        altered("begin", status="MIDDLE"),
        altered("end", event_count=None),
        None,
    ],
)
def test_anything_else_stops_and_names_the_offset(value: bytes | None) -> None:
    with pytest.raises(LogCorrupted, match="offset 77"):
        decoded(None, value)


@pytest.mark.parametrize("field", [b'"name":"seamline-core_bank"', b'"table":"account"', b'"gtid":"0-7-3087"'])
@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_text_of_the_envelope_that_is_no_utf_8_stops_and_names_the_offset(field: bytes, wrong: bytes) -> None:
    key, value = RECORDS["insert"]
    assert value.count(field) == 1
    with pytest.raises(LogCorrupted, match="offset 77: not a record of Debezium's MariaDB connector"):
        decoded(key, value.replace(field, field[:-2] + wrong + b'"'))


@pytest.mark.parametrize("name", [name for name, (_, value) in RECORDS.items() if value[2:8] == b"before"])
def test_a_row_reads_the_same_without_what_our_connector_leaves_out(name: str) -> None:
    key, value = RECORDS[name]
    row = json.loads(value)
    source = {field: row["source"][field] for field in ("name", "ts_ms", "db", "table", "gtid", "file", "pos")}
    lean = {"before": row["before"], "after": row["after"], "source": source, "op": row["op"]}
    assert decoded(key, json.dumps(lean, separators=(",", ":")).encode()) == of(name)
