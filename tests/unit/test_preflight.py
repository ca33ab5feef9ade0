"""Each rule of preflight, alone: what it says about a server that breaks it, and that a good server breaks none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from seamline.databases.mysql.preflight import MARKER_COLUMNS, ForeignKeyAction, RoleFacts, SourceFacts
from seamline.databases.mysql.preflight_facts import grants_of
from seamline.kinds.logins import Logins, logins_of
from seamline.sources.mariadb import preflight_facts
from seamline.sources.mariadb.grants import grant_script
from seamline.sources.mariadb.preflight import check

VARIABLES = {
    "version": "11.4.5-MariaDB-log",
    "log_bin": "ON",
    "log_bin_compress": "OFF",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_strict_mode": "ON",
    "sync_binlog": "1",
    "innodb_flush_log_at_trx_commit": "1",
    "binlog_expire_logs_seconds": "864000",
    "sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE",
    "max_allowed_packet": "268435456",
    "server_id": "7",
    "wsrep_on": "OFF",
    "lower_case_table_names": "0",
}
SESSION = {"binlog_format": "ROW", "binlog_row_image": "FULL"}
GOOD = SourceFacts(
    database="bank",
    variables=VARIABLES,
    engines={"account": "InnoDB"},
    marker_columns=MARKER_COLUMNS,
    marker_key=("id",),
    marker_engine="InnoDB",
    reader=RoleFacts("core_bank", "reader", frozenset({"RELOAD"}), session=SESSION),
    capture=RoleFacts(
        "core_bank_capture",
        "capture",
        frozenset({"REPLICATION SLAVE", "BINLOG MONITOR"}),
        frozenset({"SELECT"}),
        session=SESSION,
    ),
    marker=RoleFacts("core_bank_marker", "marker", session=SESSION),
)


def with_variable(name: str, value: str) -> SourceFacts:
    return replace(GOOD, variables={**VARIABLES, name: value})


def test_a_server_as_it_must_be_has_no_problem() -> None:
    assert check(GOOD) == ()


class Gathered(dict[str, str]):
    """Refuses to be asked for what `gather` does not ask a server for, and would so be unknown of every server."""

    def get(self, name: str, other: Any = None) -> Any:
        assert name in preflight_facts.VARIABLES, name
        return super().get(name, other)


def test_every_variable_that_a_rule_asks_for_is_gathered() -> None:
    asked = replace(GOOD, variables=Gathered(VARIABLES))
    assert check(asked) == ()
    with pytest.raises(AssertionError, match="innodb_read_only"):
        asked.variables.get("innodb_read_only")


@pytest.mark.parametrize(
    ("version", "said", "is_fatal"),
    [
        ("10.11.14-MariaDB", "tested on 11.4", False),
        ("11.40.1-MariaDB", "tested on 11.4", False),
        ("8.4.6", "no MariaDB", True),
        ("", "unknown", True),
    ],
)
def test_a_version_that_was_never_tried_is_reported(version: str, said: str, is_fatal: bool) -> None:  # noqa: FBT001 (a case)
    (problem,) = check(with_variable("version", version))
    assert said in problem.what
    assert problem.is_fatal is is_fatal


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("log_bin", "OFF", "log_bin is OFF"),
        ("binlog_format", "MIXED", "binlog_format is MIXED, wanted ROW"),
        ("binlog_format", "STATEMENT", "binlog_format is STATEMENT"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image is MINIMAL, wanted FULL"),
        ("binlog_row_metadata", "NO_LOG", "binlog_row_metadata is NO_LOG"),
        ("gtid_strict_mode", "OFF", "gtid_strict_mode is OFF"),
        ("sync_binlog", "0", "sync_binlog is 0, wanted 1"),
        ("innodb_flush_log_at_trx_commit", "2", "innodb_flush_log_at_trx_commit is 2"),
        ("log_bin_compress", "ON", "log_bin_compress is ON"),
        ("wsrep_on", "ON", "wsrep_on is ON"),
        ("server_id", "0", "server_id is 0"),
        ("binlog_expire_logs_seconds", "3600", "kept for 1 h only"),
    ],
)
def test_a_setting_that_could_lose_changes_is_fatal_and_named(name: str, value: str, said: str) -> None:
    (problem,) = check(with_variable(name, value))
    assert problem.is_fatal
    assert said in problem.what
    assert problem.cure


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("binlog_expire_logs_seconds", "172800", "kept for 48 h only"),
        ("sql_mode", "STRICT_TRANS_TABLES", "zero dates"),
        ("max_allowed_packet", "1048576", "max_allowed_packet is 1048576"),
        ("lower_case_table_names", "1", "in another case"),
    ],
)
def test_a_setting_that_only_narrows_what_is_proven_is_reported(name: str, value: str, said: str) -> None:
    (problem,) = check(with_variable(name, value))
    assert not problem.is_fatal
    assert said in problem.what


def test_a_binlog_that_is_never_purged_is_fine() -> None:
    assert check(with_variable("binlog_expire_logs_seconds", "0")) == ()


def test_a_missing_variable_counts_as_wrong() -> None:
    variables = {name: value for name, value in VARIABLES.items() if name != "binlog_row_metadata"}
    (problem,) = check(replace(GOOD, variables=variables))
    assert "binlog_row_metadata is unknown" in problem.what


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"engines": {"account": "MyISAM"}}, "table account uses engine MyISAM"),
        ({"prepared_xa": 2}, "2 prepared XA transactions"),
        ({"binlog_do": "bank"}, "also to tables of bank: binlog_do_db = 'bank'"),
        ({"binlog_ignore": "mysql"}, "also to tables of bank: binlog_do_db = '', binlog_ignore_db = 'mysql'"),
        ({"replicates_from": ("primary:3306",)}, "a replica of primary:3306"),
        ({"foreign_keys": (ForeignKeyAction("child", "fk", "CASCADE", "RESTRICT"),)}, "foreign key fk of table child"),
        ({"foreign_keys": (ForeignKeyAction("child", "fk", "RESTRICT", "SET NULL"),)}, "into the binlog"),
        ({"marker_columns": {}}, "no marker table `seamline_marker`"),
        ({"marker_columns": {**MARKER_COLUMNS, "id": "varchar(32)"}}, "id is varchar(32), wanted varchar(64)"),
        ({"marker_key": ()}, "its primary key is ()"),
        ({"marker_engine": "Aria"}, "its engine is Aria"),
    ],
)
def test_a_trap_of_the_source_is_fatal_and_named(changed: dict[str, Any], said: str) -> None:
    (problem,) = check(replace(GOOD, **changed))
    assert problem.is_fatal
    assert said in problem.what


def test_a_marker_table_that_can_only_grow_is_reported_and_stops_nobody() -> None:
    (problem,) = check(replace(GOOD, marker=replace(GOOD.marker, prune_error="DELETE command denied")))
    assert not problem.is_fatal
    assert "cannot delete old markers" in problem.what


def test_foreign_keys_that_only_refuse_are_fine() -> None:
    restrict = ForeignKeyAction("child", "fk", "RESTRICT", "NO ACTION")
    assert check(replace(GOOD, foreign_keys=(restrict,))) == ()


@pytest.mark.parametrize(
    ("role", "changed", "said"),
    [
        ("capture", {"global_grants": frozenset({"BINLOG MONITOR"})}, "lacks REPLICATION SLAVE"),
        ("capture", {"global_grants": frozenset({"REPLICATION SLAVE"})}, "lacks BINLOG MONITOR"),
        ("capture", {"database_grants": frozenset({"INSERT"})}, "lacks SELECT on the whole database bank"),
        ("capture", {"unreadable": {"account": "SELECT command denied"}}, "cannot read table account: SELECT command"),
        ("reader", {"unreadable": {"account": "SELECT command denied"}}, "cannot read table account"),
        ("marker", {"marker_error": "INSERT command denied"}, "cannot write a marker: INSERT command denied"),
        ("marker", {"session": {"binlog_format": "STATEMENT"}}, "have binlog_format = STATEMENT"),
        ("capture", {"session": {"binlog_row_image": "MINIMAL"}}, "have binlog_row_image = MINIMAL"),
    ],
)
def test_a_role_without_its_grant_is_named_with_its_connection(role: str, changed: dict[str, Any], said: str) -> None:
    facts = replace(GOOD, **{role: replace(getattr(GOOD, role), **changed)})
    (problem,) = check(facts)
    assert said in problem.what
    assert getattr(GOOD, role).login in problem.what


@pytest.mark.parametrize(
    ("lines", "everywhere", "here"),
    [
        (["GRANT USAGE ON *.* TO `x`@`%` IDENTIFIED BY PASSWORD '*A'"], {"USAGE"}, set()),
        (
            ["GRANT RELOAD, BINLOG MONITOR ON *.* TO `x`@`%`", "GRANT SELECT ON `my_bank`.* TO `x`@`%`"],
            {"RELOAD", "BINLOG MONITOR"},
            {"SELECT"},
        ),
        ([r"GRANT SELECT, INSERT ON `my\_bank`.* TO `x`@`%`"], set(), {"SELECT", "INSERT"}),
        ([r"GRANT SELECT ON `my\_b`.* TO `x`@`%`", "GRANT SELECT ON `my_bank`.`t` TO `x`@`%`"], set(), set()),
        (["GRANT SELECT ON `my%`.* TO `x`@`%`", "GRANT `some_role` TO `x`@`%`"], set(), {"SELECT"}),
    ],
)
def test_grants_are_read_from_what_the_server_shows(lines: list[str], everywhere: set[str], here: set[str]) -> None:
    assert grants_of(lines, "my_bank") == (everywhere, here)


def test_reload_is_asked_for_only_where_the_brief_lock_is_used() -> None:
    reader = replace(GOOD.reader, global_grants=frozenset())
    assert check(replace(GOOD, reader=reader)) == ()
    (problem,) = check(replace(GOOD, reader=reader, brief_lock=True))
    assert "lacks RELOAD" in problem.what


def test_an_administrator_lacks_nothing() -> None:
    everything = frozenset({"ALL PRIVILEGES"})
    facts = replace(GOOD, capture=replace(GOOD.capture, global_grants=everything), brief_lock=True)
    assert check(facts) == ()


def test_every_problem_is_reported_at_once() -> None:
    facts = replace(with_variable("binlog_format", "MIXED"), prepared_xa=1, marker_key=())
    assert len(check(facts)) == 3


def test_the_grant_script_gives_each_role_the_least_it_needs() -> None:
    script = grant_script("bank", ["account", "o`dd"], logins=Logins(capture="cap", reader="re'ad", marker="mark"))
    assert "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'cap'@'%';" in script
    assert "GRANT SELECT ON `bank`.`o``dd` TO 're''ad'@'%';" in script
    assert "GRANT SELECT ON `bank`.* TO 'cap'@'%';" in script
    assert r"GRANT SELECT ON `my\_bank`.* TO" in grant_script("my_bank", [], logins=logins_of("bank"))
    assert "GRANT SELECT, INSERT, DELETE ON `bank`.`seamline_marker` TO 'mark'@'%';" in script
    assert "RELOAD" not in script
    assert "RELOAD" in grant_script("bank", [], logins=logins_of("bank"), snapshot_lock="brief")


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    script = grant_script("bank", ["account", "ledger_entry"], logins=logins_of("bank"))
    assert f"```sql\n{script}```" in page


class Forbidden:
    """A session that may not see from whom its server replicates."""

    def cursor(self, _: object) -> "Forbidden":
        return self

    def __enter__(self) -> "Forbidden":
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, _: str) -> None:
        raise pymysql.err.OperationalError(1227, "Access denied; you need REPLICA MONITOR")


@pytest.mark.parametrize(("running", "primaries"), [("0", ()), ("1", ("another server",))])
def test_a_replica_is_known_as_one_to_a_login_that_may_not_see_its_primary(
    running: str, primaries: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight_facts, "query", lambda session, text: (("Slaves_running", running),))
    assert preflight_facts.primaries(Forbidden()) == primaries  # type: ignore[arg-type]
