"""Each rule that MySQL has of its own, alone; and that a good server breaks none."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from seamline.databases.mysql.preflight import MARKER_COLUMNS, ForeignKeyAction, RoleFacts, SourceFacts
from seamline.databases.mysql.preflight_facts import Questions
from seamline.databases.mysql.source import Preflight
from seamline.kinds.logins import logins_of
from seamline.sources.mysql.grants import grant_script
from seamline.sources.mysql.preflight import RULES, RULES_OF_TABLES, check
from seamline.sources.mysql.preflight import VARIABLES as ASKED
from seamline.sources.mysql.source import MySqlSource
from tests.log_topic import sync_plan

VARIABLES = {
    "version": "9.7.4-2",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_row_value_options": "",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "binlog_order_commits": "ON",
    "sync_binlog": "1",
    "innodb_flush_log_at_trx_commit": "1",
    "binlog_expire_logs_seconds": "2592000",
    "binlog_expire_logs_auto_purge": "ON",
    "innodb_native_foreign_keys": "OFF",
    "sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE",
    "max_allowed_packet": "67108864",
    "server_id": "9",
    "lower_case_table_names": "0",
}
SESSION = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": ""}
GOOD = SourceFacts(
    database="bank",
    variables=VARIABLES,
    engines={"account": "InnoDB"},
    foreign_keys=(ForeignKeyAction("entry", "fk", "CASCADE", "RESTRICT"),),
    marker_columns=MARKER_COLUMNS,
    marker_key=("id",),
    marker_engine="InnoDB",
    reader=RoleFacts("bank", "reader", frozenset({"BACKUP_ADMIN"}), session=SESSION),
    capture=RoleFacts(
        "bank_capture",
        "capture",
        frozenset({"REPLICATION SLAVE", "REPLICATION CLIENT", "XA_RECOVER_ADMIN"}),
        frozenset({"SELECT"}),
        session=SESSION,
    ),
    marker=RoleFacts("bank_marker", "marker", session=SESSION),
)


def test_a_good_server_breaks_no_rule() -> None:
    assert check(GOOD) == ()
    assert set(VARIABLES) <= set(ASKED)
    assert check(replace(GOOD, brief_lock=True, reader=role("FLUSH_TABLES", "REPLICATION CLIENT", "PROCESS"))) == ()


def role(*grants: str) -> RoleFacts:
    return replace(GOOD.reader, global_grants=frozenset(grants))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("version", "8.4.5", "tested on 9.7"),
        ("version", "11.4.5-MariaDB", "is no MySQL"),
        ("log_bin", "OFF", "log_bin is OFF, wanted ON"),
        ("binlog_format", "MIXED", "binlog_format is MIXED, wanted ROW"),
        ("binlog_row_value_options", "PARTIAL_JSON", "is PARTIAL_JSON, wanted empty: a document"),
        ("gtid_mode", "ON_PERMISSIVE", "gtid_mode is ON_PERMISSIVE, wanted ON"),
        ("binlog_order_commits", "OFF", "another order"),
        ("innodb_native_foreign_keys", "ON", "foreign key fk of table entry acts by itself"),
        ("group_replication_group_name", "aaaa", "Group Replication"),
        ("server_id", "0", "server_id is 0"),
        ("binlog_expire_logs_seconds", "3600", "kept for 1 h only"),
        ("sql_mode", "", "zero dates"),
    ],
)
def test_a_setting_that_breaks_a_rule_is_named(name: str, value: str, said: str) -> None:
    (problem,) = check(replace(GOOD, variables={**VARIABLES, name: value}))
    assert said in problem.what


def test_tables_of_another_database_are_judged_by_the_settings_of_the_same_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a source that allows a brief lock, whose reader has the rights of that alone."""
    own = replace(GOOD, brief_lock=True, reader=role("FLUSH_TABLES", "REPLICATION CLIENT", "PROCESS"))
    other = SourceFacts(
        "history", {}, {"entry": "InnoDB"}, foreign_keys=GOOD.foreign_keys, reader=own.reader, capture=own.capture
    )
    questions = SimpleNamespace(gather=lambda *_: own, gather_tables=lambda *_, **__: other)
    monkeypatch.setattr(MySqlSource, "judged", Preflight(cast(Questions, questions), RULES, RULES_OF_TABLES, ()))
    monkeypatch.setattr("seamline.databases.mysql.source.role", lambda _source, name: name)
    plan = replace(sync_plan().source, databases=("history",), snapshot_lock="brief")
    assert MySqlSource(plan).preflight([]) == ()


def test_servers_before_9_6_log_nothing_of_what_a_foreign_key_does() -> None:
    older = {name: value for name, value in VARIABLES.items() if name != "innodb_native_foreign_keys"}
    (problem,) = check(replace(GOOD, variables=older))
    assert problem.table == "entry"
    assert problem.is_fatal


def test_a_log_that_nobody_purges_needs_no_period() -> None:
    kept = {**VARIABLES, "binlog_expire_logs_auto_purge": "OFF", "binlog_expire_logs_seconds": "3600"}
    assert check(replace(GOOD, variables=kept)) == ()


@pytest.mark.parametrize("name", SESSION)
def test_a_session_with_settings_of_its_own_is_named(name: str) -> None:
    (problem,) = check(replace(GOOD, marker=replace(GOOD.marker, session={**SESSION, name: "other"})))
    assert f"new sessions of `marker` have {name} = other" in problem.what


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        (replace(GOOD, reader=role()), ["BACKUP_ADMIN"]),
        (replace(GOOD, brief_lock=True), ["FLUSH_TABLES", "REPLICATION CLIENT", "PROCESS"]),
        (
            replace(GOOD, capture=replace(GOOD.capture, global_grants=frozenset())),
            ["REPLICATION SLAVE", "REPLICATION CLIENT", "XA_RECOVER_ADMIN"],
        ),
        (replace(GOOD, capture=replace(GOOD.capture, database_grants=frozenset())), ["SELECT on the whole"]),
    ],
    ids=["no lock", "brief lock", "capture", "capture of the database"],
)
def test_a_role_that_lacks_a_right_is_named(facts: SourceFacts, lacking: list[str]) -> None:
    problems = check(facts)
    assert len(problems) == len(lacking)
    for problem, right in zip(problems, lacking, strict=True):
        assert f"lacks {right}" in problem.what


def test_the_page_of_grants_shows_what_the_script_of_mysql_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    script = grant_script("bank", ["account", "ledger_entry"], logins=logins_of("bank"))
    assert f"```sql\n{script}```" in page
