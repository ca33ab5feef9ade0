"""Each rule of preflight of PostgreSQL, alone: what it says about a server that breaks it, and about none else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from seamline.adapters.connections import Connection
from seamline.cli.main import main
from seamline.databases.postgres.roles import made_login
from seamline.domain.errors import InvariantViolated
from seamline.kinds.logins import DestinationLogins, Logins
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem
from seamline.sinks.postgres.grants import grant_script as destination_script
from seamline.sources.postgres.grants import grant_script
from seamline.sources.postgres.marker import commit_marker, create_statement
from seamline.sources.postgres.partitions import Partition
from seamline.sources.postgres.preflight import (
    MARKER_COLUMNS,
    PUBLISHED,
    PublicationFacts,
    RoleFacts,
    SourceFacts,
    TableFacts,
    check,
)
from tests.unit.declared import DESTINATION, SYNC, write_declarations
from tests.unit.declared import SOURCE as MARIADB_SOURCE

SOURCE = SourcePlan(
    name="bank",
    kind="postgres",
    database="bank",
    reader="bank",
    capture="bank_capture",
    marker="bank_marker",
    log_topic="seamline.bank.log",
    connector="seamline-bank",
    schema="public",
)
SETTINGS = {
    "wal_level": "logical",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "server_encoding": "UTF8",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "max_slot_wal_keep_size": "4096",
    "idle_replication_slot_timeout": "0",
}
PUBLICATION = PublicationFacts(frozenset({"account", "audit", "seamline_marker"}))
TABLES = {
    "account": TableFacts("account"),
    "audit": TableFacts("audit", is_keyed=False, identity="f"),
    "seamline_marker": TableFacts("seamline_marker"),
}
GOOD = SourceFacts(
    source=SOURCE,
    version=160014,
    wanted=("account", "audit"),
    settings=SETTINGS,
    slots_used=3,
    senders_used=8,
    tables=TABLES,
    publication=PUBLICATION,
    marker_columns=MARKER_COLUMNS,
    marker_key=("id",),
    reader=RoleFacts("bank", "reader"),
    capture=RoleFacts("bank_capture", "capture", may_replicate=True),
    marker=RoleFacts("bank_marker", "marker", may_insert=True, may_delete=True),
)


def the_problem(facts: SourceFacts) -> Problem:
    (problem,) = check(facts)
    return problem


def with_table(name: str, **changed: Any) -> SourceFacts:
    return replace(GOOD, tables={**TABLES, name: replace(TABLES[name], **changed)})


def with_publication(**changed: Any) -> SourceFacts:
    return replace(GOOD, publication=replace(PUBLICATION, **changed))


def test_a_server_as_it_must_be_has_no_problem() -> None:
    assert check(GOOD) == ()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("wal_level", "replica", "wal_level is replica, wanted logical"),
        ("fsync", "off", "fsync is off, wanted on"),
        ("full_page_writes", "off", "full_page_writes is off, wanted on"),
        ("server_encoding", "LATIN1", "server_encoding is LATIN1, wanted UTF8"),
        ("max_replication_slots", "4", "max_replication_slots is 4 and 3 are in use by others"),
        ("max_wal_senders", "9", "max_wal_senders is 9 and 8 are in use by others"),
        ("max_slot_wal_keep_size", "-1", "can fill the source's disk"),
    ],
)
def test_a_setting_that_could_lose_changes_or_the_disk_is_fatal_and_named(name: str, value: str, said: str) -> None:
    problem = the_problem(replace(GOOD, settings={**SETTINGS, name: value}))
    assert problem.is_fatal
    assert said in problem.what
    assert problem.cure


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("synchronous_commit", "off", "takes back commits"),
        ("idle_replication_slot_timeout", "86400", "idle_replication_slot_timeout is 86400 s"),
    ],
)
def test_a_setting_that_only_narrows_what_is_promised_is_reported(name: str, value: str, said: str) -> None:
    problem = the_problem(replace(GOOD, settings={**SETTINGS, name: value}))
    assert not problem.is_fatal
    assert said in problem.what


@pytest.mark.parametrize(
    "name", ["wal_level", "fsync", "full_page_writes", "server_encoding", "max_slot_wal_keep_size"]
)
def test_a_missing_setting_counts_as_wrong(name: str) -> None:
    settings = {known: value for known, value in SETTINGS.items() if known != name}
    assert name in the_problem(replace(GOOD, settings=settings)).what


def test_a_slot_that_will_be_given_up_is_reported_while_half_of_its_room_is_left() -> None:
    half = 2048 * 1024 * 1024
    problem = the_problem(replace(GOOD, wal_left=half - 1))
    assert not problem.is_fatal
    assert "2,047 MB more, and the server gives it up (max_slot_wal_keep_size is 4,096 MB)" in problem.what
    assert "0 MB more" in the_problem(replace(GOOD, wal_left=-5)).what
    assert check(replace(GOOD, wal_left=half)) == ()


def test_two_places_are_enough_and_a_server_before_18_has_no_limit_for_idle_slots() -> None:
    settings = {**SETTINGS, "max_replication_slots": "5"}
    del settings["idle_replication_slot_timeout"]
    assert check(replace(GOOD, settings=settings)) == ()


@pytest.mark.parametrize("number", [150012, 160008, 170004])
def test_a_minor_that_loses_changes_after_alter_publication_is_refused(number: int) -> None:
    problem = the_problem(replace(GOOD, version=number))
    assert problem.is_fatal
    assert f"PostgreSQL {number // 10000}.{number % 10000}: changes can be lost" in problem.what
    assert problem.cure == f"update it to {number // 10000}.{number % 10000 + 2} or newer"


@pytest.mark.parametrize("number", [150013, 160009, 170005])
def test_the_first_minor_with_that_fix_is_reported_with_its_own_fault(number: int) -> None:
    problem = the_problem(replace(GOOD, version=number))
    assert not problem.is_fatal
    assert problem.cure == f"update it to {number // 10000}.{number % 10000 + 1} or newer"


@pytest.mark.parametrize("number", [150014, 160010, 170006, 180000, 190001])
def test_newer_servers_are_fine(number: int) -> None:
    assert check(replace(GOOD, version=number)) == ()


def test_of_a_server_older_than_15_only_that_is_reported() -> None:
    problem = the_problem(SourceFacts(SOURCE, 140020))
    assert problem.is_fatal
    assert "PostgreSQL 14.20: older than 15" in problem.what


def test_a_standby_is_refused() -> None:
    problem = the_problem(replace(GOOD, is_in_recovery=True))
    assert problem.is_fatal
    assert "is a standby" in problem.what


def test_a_missing_publication_comes_with_the_statement_that_makes_it() -> None:
    problem = the_problem(replace(GOOD, publication=None))
    assert problem.is_fatal
    assert 'there is no publication "seamline_bank"' in problem.what
    assert (
        'CREATE PUBLICATION "seamline_bank" FOR TABLE "public"."account", "public"."audit", "public"."seamline_marker"'
        " WITH (publish_via_partition_root = true)"
    ) in problem.cure


@pytest.mark.parametrize(
    ("changed", "said", "cure"),
    [
        ({"is_for_all_tables": True}, "is FOR ALL TABLES", 'DROP PUBLICATION "seamline_bank"; CREATE PUBLICATION'),
        ({"schemas": ("odd",)}, "TABLES IN SCHEMA odd", 'DROP TABLES IN SCHEMA "odd"'),
        (
            {"publishes": PUBLISHED - {"truncate", "delete"}},
            "does not publish delete, truncate",
            "SET (publish = 'insert, update, delete, truncate')",
        ),
        (
            {"tables": PUBLICATION.tables - {"account"}},
            "table account is not in publication",
            'run ALTER PUBLICATION "seamline_bank" ADD TABLE "public"."account"',
        ),
        (
            {"tables": PUBLICATION.tables - {"seamline_marker"}},
            "table seamline_marker is not in publication",
            'ADD TABLE "public"."seamline_marker"',
        ),
        (
            {"row_filtered": frozenset({"account"})},
            "only rows of table account that meet a WHERE",
            'DROP TABLE "public"."account"; ALTER PUBLICATION "seamline_bank" ADD TABLE "public"."account"',
        ),
        ({"column_listed": frozenset({"audit"})}, "only some columns of table audit", 'ADD TABLE "public"."audit"'),
    ],
)
def test_a_publication_that_would_leave_out_changes_is_fatal(changed: dict[str, Any], said: str, cure: str) -> None:
    problem = the_problem(with_publication(**changed))
    assert problem.is_fatal
    assert said in problem.what
    assert cure in problem.cure


def test_a_filter_on_a_table_of_somebody_else_is_fine() -> None:
    changed = {"row_filtered": frozenset({"other"}), "column_listed": frozenset({"other"})}
    assert check(with_publication(tables=PUBLICATION.tables | {"other"}, **changed)) == ()


@pytest.mark.parametrize(
    ("table", "changed", "said", "cure"),
    [
        ("account", {"kind": "p"}, "reports the changes of table account as of its partitions", "root = true"),
        ("account", {"kind": "f"}, "account is a foreign table", "leave it out"),
        ("account", {"kind": "v"}, "account is a view", "leave it out"),
        ("account", {"kind": "m"}, "account is a materialized view", "leave it out"),
        ("account", {"kind": "S"}, "a relation of kind S", "leave it out"),
        ("account", {"persistence": "u"}, "account is unlogged", 'ALTER TABLE "public"."account" SET LOGGED'),
        ("account", {"persistence": "t"}, "account is temporary", "leave it out"),
        ("account", {"has_children": True}, "account has tables that inherit from it", "NO INHERIT"),
        ("account", {"identity": "n"}, "account is NOTHING", 'TABLE "public"."account" REPLICA IDENTITY DEFAULT'),
        ("account", {"identity": "i"}, "account is an index that is not its", "REPLICA IDENTITY DEFAULT"),
        ("account", {"has_deferrable_key": True}, "primary key of table account is deferrable", "NOT DEFERRABLE"),
        ("audit", {"identity": "d"}, "audit has no primary key", 'ALTER TABLE "public"."audit" REPLICA IDENTITY FULL'),
        ("audit", {"identity": "n"}, "audit has no primary key", "REPLICA IDENTITY FULL"),
        ("audit", {"identity": "i"}, "audit has no primary key", "REPLICA IDENTITY FULL"),
        ("seamline_marker", {"persistence": "u"}, "seamline_marker is unlogged", "SET LOGGED"),
        ("seamline_marker", {"identity": "n"}, "seamline_marker is NOTHING", "REPLICA IDENTITY DEFAULT"),
    ],
)
def test_a_table_whose_changes_cannot_be_followed_is_fatal(
    table: str, changed: dict[str, Any], said: str, cure: str
) -> None:
    problem = the_problem(with_table(table, **changed))
    assert problem.is_fatal
    assert said in problem.what
    assert cure in problem.cure
    assert problem.table == table


def test_a_partition_is_refused_where_its_changes_may_be_published_as_those_of_its_root() -> None:
    facts = with_table("account", is_partition=True)
    assert check(facts) == ()
    problem = the_problem(replace(facts, publication=replace(PUBLICATION, publishes_roots=True)))
    assert problem.is_fatal
    assert "account is a partition" in problem.what
    assert "name the partitioned table" in problem.cure
    assert check(replace(GOOD, publication=replace(PUBLICATION, publishes_roots=True))) == ()


def partitioned(name: str, *partitions: Partition, **changed: Any) -> SourceFacts:
    facts = with_table(name, kind="p", partitions=partitions, **changed)
    return replace(facts, publication=replace(PUBLICATION, publishes_roots=True))


def test_a_partitioned_table_is_one_table_whose_partitions_are_looked_at() -> None:
    part = Partition("public.account_may", "700", 600)
    assert check(partitioned("account", part)) == ()
    for changed, said in (
        ({"is_logged": False}, "account: partition public.account_may is unlogged or a foreign table"),
        ({"identity": "n"}, "account: the replica identity of partition public.account_may"),
    ):
        problem = the_problem(partitioned("account", part, msgspec.structs.replace(part, **changed)))
        assert problem.is_fatal and said in problem.what and problem.cure


def test_a_partitioned_table_without_a_primary_key_is_refused_for_partitions_inherit_no_identity() -> None:
    problem = the_problem(partitioned("audit", identity="f"))
    assert "audit is partitioned and has no primary key" in problem.what
    assert 'ALTER TABLE "public"."audit" ADD PRIMARY KEY' in problem.cure


def test_a_keyed_table_may_log_its_whole_old_rows() -> None:
    assert check(with_table("account", identity="f")) == ()


def test_whole_old_rows_do_not_make_a_deferrable_key_exact() -> None:
    assert "deferrable" in the_problem(with_table("account", identity="f", has_deferrable_key=True)).what


def test_a_table_that_is_gone_is_reported() -> None:
    tables = {name: table for name, table in TABLES.items() if name != "account"}
    assert "there is no table account in schema public" in the_problem(replace(GOOD, tables=tables)).what


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"marker_columns": {**MARKER_COLUMNS, "id": "text"}}, "id is text, wanted character varying(64)"),
        ({"marker_columns": {"id": MARKER_COLUMNS["id"]}}, "kind is missing"),
        ({"marker_key": ()}, "its primary key is (), wanted (id)"),
        ({"marker_key": ("id", "kind")}, "its primary key is (id, kind)"),
    ],
)
def test_a_marker_table_of_another_schema_is_fatal(changed: dict[str, Any], said: str) -> None:
    problem = the_problem(replace(GOOD, **changed))
    assert problem.is_fatal
    assert said in problem.what


def test_a_missing_marker_table_is_reported_once_and_with_the_way_to_it() -> None:
    tables = {name: table for name, table in TABLES.items() if name != "seamline_marker"}
    role = RoleFacts("bank_marker", "marker")
    publication = replace(PUBLICATION, tables=PUBLICATION.tables - {"seamline_marker"})
    facts = replace(GOOD, tables=tables, marker_columns={}, marker_key=(), marker=role, publication=publication)
    problem = the_problem(facts)
    assert 'there is no marker table "public"."seamline_marker"' in problem.what
    assert "grants.md" in problem.cure


@pytest.mark.parametrize(
    ("role", "changed", "said"),
    [
        ("reader", {"unreadable": ("account",)}, "cannot read table account: it lacks SELECT"),
        ("reader", {"without_usage": ("public",)}, "lacks USAGE on schema public"),
        ("reader", {"filtered": ("account",)}, "only some rows of table account"),
        ("capture", {"unreadable": ("seamline_marker",)}, "cannot read table seamline_marker"),
        ("capture", {"without_usage": ("public",)}, "lacks USAGE on schema public"),
        ("capture", {"may_replicate": False}, "lacks REPLICATION"),
        ("marker", {"unreadable": ("seamline_marker",)}, "cannot read table seamline_marker"),
        ("marker", {"without_usage": ("public",)}, "lacks USAGE on schema public"),
        ("marker", {"may_insert": False}, "cannot write a marker: it lacks INSERT"),
        ("marker", {"filtered": ("seamline_marker",)}, "may not write a marker"),
        ("capture", {"filtered": ("seamline_marker",)}, "row security hides markers"),
    ],
)
def test_a_role_without_its_grant_is_named_with_its_connection(role: str, changed: dict[str, Any], said: str) -> None:
    known = getattr(GOOD, role)
    problem = the_problem(replace(GOOD, **{role: replace(known, **changed)}))
    assert problem.is_fatal
    assert said in problem.what
    assert f"login `{known.login}` (connection `{known.connection_id}`)" in problem.what


def test_a_marker_table_that_can_only_grow_is_reported_and_stops_nobody() -> None:
    problem = the_problem(replace(GOOD, marker=replace(GOOD.marker, may_delete=False)))
    assert not problem.is_fatal
    assert "cannot delete old markers" in problem.what


def test_row_security_does_not_matter_to_the_role_that_reads_the_log() -> None:
    assert check(replace(GOOD, capture=replace(GOOD.capture, filtered=("account",)))) == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prepared": ("`a` in database bank", "`b` in database x")}, "`a` in database bank, `b` in database x"),
        ({"long_running": ("pid 7 of batch",)}, "over an hour: pid 7 of batch; creating a snapshot waits"),
    ],
)
def test_what_a_snapshot_would_wait_for_is_reported(changed: dict[str, Any], said: str) -> None:
    problem = the_problem(replace(GOOD, **changed))
    assert not problem.is_fatal
    assert said in problem.what


def test_every_problem_is_reported_at_once() -> None:
    facts = replace(with_table("account", identity="n"), is_in_recovery=True, marker_key=())
    assert len(check(facts)) == 3


def test_the_grant_script_gives_each_role_the_least_it_needs() -> None:
    logins = Logins(capture="cap", reader='re"ad', marker="mark")
    script = grant_script(replace(SOURCE, schema='o"dd'), ["account"], logins=logins)
    assert made_login("cap", may="REPLICATION") in script
    assert made_login("mark") in script
    assert 'GRANT CONNECT ON DATABASE "bank" TO "cap", "mark", "re""ad";' in script
    assert 'GRANT USAGE ON SCHEMA "o""dd" TO "cap", "mark", "re""ad";' in script
    granted = [line for line in script.splitlines() if line.startswith(("GRANT SELECT", "GRANT INSERT"))]
    assert granted == [
        'GRANT SELECT ON "o""dd"."account" TO "cap";',
        'GRANT SELECT ON "o""dd"."seamline_marker" TO "cap";',
        'GRANT SELECT ON "o""dd"."account" TO "re""ad";',
        'GRANT SELECT ON "o""dd"."seamline_marker" TO "re""ad";',
        'GRANT SELECT, INSERT, DELETE ON "o""dd"."seamline_marker" TO "mark";',
    ]
    assert f"{create_statement(chr(111) + chr(34) + 'dd', 'seamline_marker')};" in script


def test_one_login_for_all_roles_is_made_once_and_may_replicate() -> None:
    script = grant_script(SOURCE, ["account"], logins=Logins("one", "one", "one"))
    assert script.count("CREATE ROLE") == 1
    assert """CREATE ROLE "one" LOGIN REPLICATION PASSWORD""" in script


def test_the_script_lists_tables_and_never_publishes_all_of_them() -> None:
    statements = [line for line in grant_script(SOURCE, ["account"]).splitlines() if not line.startswith("--")]
    assert not any("ALL TABLES" in line or "IN SCHEMA" in line for line in statements)
    assert 'CREATE PUBLICATION "seamline_bank" FOR TABLE' in statements


def test_the_page_of_grants_shows_what_the_postgres_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    assert f"```sql\n{grant_script(SOURCE, ['account', 'ledger_entry'])}```" in page


def test_the_page_of_grants_shows_what_a_destinations_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    for logins in (DestinationLogins(), DestinationLogins("seamline_writer", "seamline_writer")):
        assert f"```sql\n{destination_script('warehouse', logins=logins)}```" in page


def test_the_script_of_a_destination_gives_the_writer_rows_and_no_table_of_its_own() -> None:
    script = destination_script("ware", logins=DestinationLogins('pub"lisher', "wri'ter"))
    assert """CREATE ROLE "pub""lisher" LOGIN PASSWORD '<password of pub"lisher>';""" in script
    assert """CREATE ROLE "wri'ter" LOGIN PASSWORD '<password of wri''ter>';""" in script
    assert 'GRANT CONNECT, CREATE ON DATABASE "ware" TO "pub""lisher";' in script
    (mine,) = [line for line in script.splitlines() if line.startswith("GRANT") and "wri'ter" in line]
    assert mine == """GRANT CONNECT, TEMPORARY ON DATABASE "ware" TO "wri'ter";"""
    assert """nspowner = '"pub""lisher"'::regrole""" in script
    assert "EXECUTE format('GRANT %s TO %I', given, 'wri''ter');" in script


def test_the_script_of_a_destination_with_one_login_makes_one() -> None:
    script = destination_script("ware", logins=DestinationLogins("one", "one"))
    assert script.count("CREATE ROLE") == 1
    assert 'GRANT CONNECT, TEMPORARY, CREATE ON DATABASE "ware" TO "one";' in script
    assert "DEFAULT PRIVILEGES" not in script


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (MARIADB_SOURCE, "-- MariaDB source, database bank."),
        (MARIADB_SOURCE.replace("mariadb", "postgres"), "-- PostgreSQL source, database bank,"),
    ],
)
def test_the_command_prints_the_script_of_the_kind_of_source(
    declared: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(tmp_path, {"sources/core_bank.yaml": declared})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "none.json"))
    monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK", "postgres://the_reader:secret@127.0.0.1:5432/bank")
    assert main(["grants", "core_bank"]) == 0
    script = capsys.readouterr().out
    assert script.startswith(said)
    assert "<password of the_reader>" in script
    assert "seamline_core_bank_capture" in script
    assert "secret" not in script


@pytest.mark.parametrize("declared", [MARIADB_SOURCE, MARIADB_SOURCE.replace("mariadb", "postgres")])
def test_two_sources_of_one_server_have_logins_of_their_own(
    declared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CREATE USER IF NOT EXISTS keeps the password that the first script gave."""
    other = SYNC.replace("sync: settlement", "sync: treasury").replace("core_bank", "other_bank")
    other = other.replace("[warehouse]", "[mirror]").replace("  expectations: settlement\n", "")
    files = {
        "sources/core_bank.yaml": declared,
        "sources/other_bank.yaml": declared.replace("core_bank", "other_bank"),
        "destinations/mirror.yaml": DESTINATION.replace(": warehouse", ": mirror").replace(
            "schema: ", "schema: other_"
        ),
        "syncs/treasury.yaml": other,
    }
    write_declarations(tmp_path, files)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "none.json"))
    logins = []
    for name in ("core_bank", "other_bank"):
        assert main(["grants", name]) == 0
        logins.append(set(re.findall(r"<password of (\w+)>", capsys.readouterr().out)))
    assert len(logins[0]) == 3 and not logins[0] & logins[1]


def test_the_command_prints_the_script_of_a_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(tmp_path)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "none.json"))
    assert main(["grants", "warehouse"]) == 0
    assert 'ON DATABASE "<database of warehouse>" TO "seamline_writer";' in capsys.readouterr().out
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", "postgres://the_writer:secret@127.0.0.1:5432/settled")
    assert main(["grants", "warehouse"]) == 0
    script = capsys.readouterr().out
    assert 'GRANT CONNECT, TEMPORARY, CREATE ON DATABASE "settled" TO "the_writer";' in script
    assert "<password of the_writer>" in script
    assert "secret" not in script
    monkeypatch.setenv("SEAMLINE_CONNECTION_STREAMER", "postgres://the_streamer:secret@127.0.0.1:5432/settled")
    two = f"{DESTINATION}writer_connection: streamer\n"
    write_declarations(tmp_path, {"destinations/warehouse.yaml": two})
    assert main(["grants", "warehouse"]) == 0
    script = capsys.readouterr().out
    assert script == destination_script("settled", logins=DestinationLogins("the_writer", "the_streamer"))
    monkeypatch.delenv("SEAMLINE_CONNECTION_STREAMER")
    monkeypatch.delenv("SEAMLINE_CONNECTION_WAREHOUSE")
    assert main(["grants", "warehouse"]) == 0
    assert capsys.readouterr().out == destination_script("<database of warehouse>", logins=DestinationLogins())
    assert main(["grants", "warehose"]) == 2
    assert "Did you mean `warehouse`?" in capsys.readouterr().err


@pytest.mark.parametrize("marker", [Marker("x" * 65, "low"), Marker("m", "x" * 17)])
def test_a_marker_that_does_not_fit_its_table_is_our_mistake_and_never_sent(marker: Marker) -> None:
    nowhere = Connection("bank_marker", "postgres", "127.0.0.1", 1)
    with pytest.raises(InvariantViolated, match="does not fit its table"):
        commit_marker(nowhere, "public", "seamline_marker", marker)
