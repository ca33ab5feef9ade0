"""What a publish into MariaDB or MySQL leaves behind when it stops half way, and what it does to tables in use."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from urllib.parse import quote

import pytest

from seamline.domain.catalogue import Column, Kind
from seamline.domain.changes import FindingsReported
from seamline.domain.errors import InvariantViolated, Refused, SchemaConflict, TransientError
from seamline.plan.model import DestinationPlan, TablePlan
from seamline.ports import Commit
from seamline.sinks.relational import session
from seamline.sinks.relational.findings import read_findings
from seamline.sinks.relational.preflight import problems
from seamline.sinks.relational.publish import Publisher
from seamline.sinks.relational.read_back import open_live
from seamline.sinks.relational.session import query
from tests.contract import behaviours
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.joining_behaviours import CALL, LEG, carrying, passed
from tests.contract.relational_worlds import AT, RELATIONAL, MariaDbWorld, relational_maker
from tests.contract.worlds import Row
from tests.integration.databases import mariadb, mariadb_writer_of
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    STREAM,
    TABLES,
    TRANSFER,
    LogTopic,
    delete,
    insert,
    publication,
    update,
)

UNIQUE = "CREATE UNIQUE INDEX row_by_row ON settlement.account (name)"
EXCHANGE = (
    update(ACCOUNT, account(1, "a"), account(1, "between")),
    update(ACCOUNT, account(2, "b"), account(2, "a")),
    update(ACCOUNT, account(1, "between"), account(1, "b")),
)


@pytest.fixture(params=[*RELATIONAL])
def world(request: pytest.FixtureRequest) -> Iterator[MariaDbWorld]:
    with closing(relational_maker(request.param, request)(TABLES)) as made:
        yield made


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whoever publishes dies behind its COMMIT, before it has renamed anything."""
    carry_out = Publisher.carry_out_pending
    calls: list[int] = []

    def dying(area: Publisher, *rest: object) -> None:
        calls.append(1)
        # The first is that before the transaction.
        if len(calls) > 1:
            raise TransientError("the publisher was killed")
        carry_out(area, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "carry_out_pending", dying)
    return monkeypatch


def publish(world: MariaDbWorld, *rows: Row, run_id: str = "run-1", covered: int = 0) -> Commit:
    loads = [world.load(table, list(rows) if table is ACCOUNT else []) for table in TABLES]
    at = publication(run_id=run_id, covered=covered, next_offset=covered)
    return world.sink().publish(STREAM, loads, publication=at)


def test_nobody_takes_or_compares_tables_that_are_published_and_have_no_names_yet(
    world: MariaDbWorld, stopped: pytest.MonkeyPatch
) -> None:
    loads = [world.load(table, [account(1)] if table is ACCOUNT else []) for table in TABLES]
    with pytest.raises(TransientError, match="killed"):
        world.sink().publish(STREAM, loads, publication=publication())
    assert world.rows(ACCOUNT) == []
    with pytest.raises(TransientError, match="do not have their names yet"):
        world.sink().acquire(STREAM)
    stopped.undo()
    destination = _known(world, stopped)
    with pytest.raises(TransientError, match="do not have their names yet"):
        open_live(world.plan, destination, 1, dialect=world.dialect)
    world.sink().publish(STREAM, loads, publication=publication())
    (view,) = open_live(world.plan, destination, 2, dialect=world.dialect)[:1]
    view.close()
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def _known(world: MariaDbWorld, patch: pytest.MonkeyPatch) -> DestinationPlan:
    """The world's destination, with both its logins known by their ids."""
    for one in (world.publisher, mariadb_writer_of(world.publisher)):
        address = f"{one.login}:{quote(one.password, safe='')}@{one.host}:{one.port}"
        patch.setenv(f"SEAMLINE_CONNECTION_{one.connection_id.upper()}", f"mysql://{address}/")
    return DestinationPlan("warehouse", world.kind, "settlement", "settlement", writer_connection="settlement_writer")


def test_preflight_names_what_is_missing_and_what_is_in_the_way(
    world: MariaDbWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = _known(world, monkeypatch)
    assert problems(world.plan, destination, world.dialect) == ()
    published(world)
    world.do(UNIQUE, "CREATE TABLE settlement.later (id int)")
    later = replace(ACCOUNT, name="later", columns=(*ACCOUNT.columns, Column("n", Kind.DECIMAL, "numeric")))
    plan = replace(world.plan, tables=(*world.plan.tables, TablePlan("later", table=later)))
    found = problems(plan, destination, world.dialect)
    assert [one.is_fatal for one in found] == [True, True, False]
    assert "column n of table later is numeric" in found[0].what
    assert "table settlement.later exists" in found[1].what
    assert "settlement.account has the unique index row_by_row" in found[2].what
    elsewhere = replace(destination, namespace="elsewhere")
    reported = [one.what for one in problems(world.plan, elsewhere, world.dialect)]
    assert len(reported) == 8
    assert "settlement_writer@% has no DELETE, INSERT, SELECT, UPDATE in database elsewhere" in reported[5]


def test_a_server_that_takes_no_rows_from_a_client_is_named_with_the_cure(
    world: MariaDbWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.do("SET GLOBAL local_infile = OFF")
    try:
        (found,) = problems(world.plan, _known(world, monkeypatch), world.dialect)
    finally:
        world.do("SET GLOBAL local_infile = ON")
    assert "takes no rows from a client" in found.what
    assert "SET GLOBAL local_infile = ON" in found.cure


def test_a_join_that_stops_behind_its_commit_is_ended_by_the_next_one(
    world: MariaDbWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = carrying(world, ACCOUNT, AUDIT)
    stream.span(insert(AUDIT, **CALL))
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    leaving = replace(joining, kept_as={"audit": "audit__kept"})
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_is_to_be_renamed", lambda *_: (_ for _ in ()).throw(TransientError("killed")))
        with pytest.raises(TransientError, match="killed"):
            world.sink().join(STREAM, leaving)
    assert (len(world.rows(AUDIT)), world.rows(TRANSFER)) == (1, [])
    world.sink().join(STREAM, leaving)
    assert (world.rows(AUDIT), world.rows(TRANSFER)) == ([], texts(LEG))
    assert world.fetch("SELECT actor FROM settlement.audit__kept") == ((CALL["actor"],),)
    assert ("settlement_incremental_10",) not in world.fetch("SHOW DATABASES")


def test_a_reader_of_a_table_that_leaves_holds_up_the_join_and_not_the_stream(
    world: MariaDbWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    carrying(world, ACCOUNT, AUDIT).span(insert(AUDIT, **CALL))
    before = world.sink().read_ledger(STREAM)
    leaving = replace(passed(world, TRANSFER, rows=[LEG], at=10), kept_as={"audit": "audit__kept"})
    monkeypatch.setitem(session._SETTINGS, "lock_wait_timeout", "1")
    with closing(mariadb(world.publisher)) as reader:
        reader.begin()
        query(reader, "SELECT * FROM settlement.audit")
        with pytest.raises(TransientError, match=r"settlement\.audit is being read"):
            world.sink().join(STREAM, leaving)
    assert world.sink().read_ledger(STREAM) == before, "nobody has taken its epoch"
    world.sink().join(STREAM, leaving)
    assert world.fetch("SELECT actor FROM settlement.audit__kept") == ((CALL["actor"],),)


def test_a_table_that_somebody_dropped_on_its_way_leaves_the_stream_as_it_is(world: MariaDbWorld) -> None:
    stream = carrying(world, ACCOUNT, AUDIT)
    stream.span()
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    world.do("DROP TABLE settlement_incremental_10.transfer")
    with pytest.raises(Refused, match="`transfer` of transfer is gone"):
        world.sink().join(STREAM, joining)
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def test_what_somebody_has_added_to_a_live_table_outlives_a_publish(world: MariaDbWorld) -> None:
    publish(world, account(1), account(2, "x"))
    world.do(
        "CREATE INDEX by_name ON settlement.account (name)",
        "CREATE VIEW settlement.names AS SELECT name FROM settlement.account",
        "UPDATE settlement.account SET name = 'meddled' WHERE id = 1",
        "UPDATE settlement.audit SET action = 'meddled'",
    )
    publish(world, account(1), account(3, "new"), run_id="run-2", covered=50)
    assert world.rows(ACCOUNT) == texts(account(1), account(3, "new"))
    assert {name for (name,) in world.fetch("SELECT name FROM settlement.names")} == {"a", "new"}
    assert world.fetch("SHOW INDEX FROM settlement.account WHERE key_name = 'by_name'")
    assert world.fetch("SHOW TABLES IN settlement_stage") == ()


def test_rows_without_a_key_that_somebody_has_changed_are_mended_by_the_next_publish(world: MariaDbWorld) -> None:
    rows: list[Row] = [CALL, CALL, {"actor": "other", "action": None}]
    for run_id in ("run-1", "run-2"):
        loads = [world.load(table, rows if table is AUDIT else []) for table in TABLES]
        world.sink().publish(STREAM, loads, publication=publication(run_id=run_id))
        assert world.rows(AUDIT) == texts(*rows)
        world.do(
            "UPDATE settlement.audit SET action = 'meddled' WHERE actor = 'other'",
            "DELETE FROM settlement.audit WHERE actor = 'x' LIMIT 1",
            "INSERT INTO settlement.audit VALUES ('by', 'hand')",
        )


@pytest.mark.parametrize("kind", RELATIONAL)
def test_names_as_long_as_the_server_takes_them_are_published_and_written(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, name = ACCOUNT.columns
    long = replace(ACCOUNT, name="中文" * 25, columns=(key, replace(name, name="文" * 64)))
    rows = [{"id": number, "文" * 64: "a"} for number in range(3)]
    monkeypatch.setattr(behaviours, "TABLES", (long,))
    monkeypatch.setattr(behaviours, "LogTopic", partial(LogTopic, tables=(long,)))
    with closing(relational_maker(kind, request)([long])) as world:
        world.sink().publish(STREAM, [world.load(long, rows[:2])], publication=publication([long]))
        Applying(world).span(insert(long, **rows[2]), delete(long, **rows[0]))
        assert world.rows(long) == texts(*rows[1:])


def test_a_table_that_is_not_ours_is_never_written(world: MariaDbWorld) -> None:
    world.do("CREATE DATABASE settlement", "CREATE TABLE settlement.account (id int PRIMARY KEY, name varchar(40))")
    with pytest.raises(Refused, match=r"settlement\.account exists in destination warehouse and was not made by"):
        publish(world)
    assert world.sink().read_ledger(STREAM) is None


def test_a_live_table_of_another_definition_is_refused_by_column(world: MariaDbWorld) -> None:
    publish(world, account(1))
    longer = replace(
        ACCOUNT, columns=(ACCOUNT.columns[0], Column("name", ACCOUNT.columns[1].kind, "varchar(50)", length=50))
    )
    with pytest.raises(SchemaConflict, match="other columns than a load brings: name"):
        world.sink().publish(STREAM, [world.load(longer, [])], publication=publication((longer,), run_id="run-2"))
    assert world.rows(ACCOUNT) == texts(account(1))


def test_two_whole_batches_of_one_table_in_one_span_are_never_half_applied(world: MariaDbWorld) -> None:
    stream = published(world)
    staged = [stream.sink.stage(stream.lease, *stream.batches(insert(ACCOUNT, **account(n)))) for n in (1, 2)]
    with pytest.raises(InvariantViolated, match="2 whole batches of account"):
        stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert world.rows(ACCOUNT) == []


# ---- unique values that change places -------------------------------------------------------------------------------


def holding(world: MariaDbWorld, *names: str) -> Applying:
    stream = published(world)
    stream.span(*(insert(ACCOUNT, **account(number, name)) for number, name in enumerate(names, 1)))
    world.do(UNIQUE)
    return stream


def test_unique_values_that_change_places_are_applied_and_published(world: MariaDbWorld) -> None:
    stream = holding(world, "a", "b", "c")
    stream.span(*EXCHANGE)
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "c"))
    assert world.findings() == []
    publish(world, account(1, "a"), account(2, "b"), account(3, "c"), run_id="run-2", covered=50)
    assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"), account(3, "c"))


def test_a_unique_index_that_a_row_truly_breaks_stops_the_span_and_shows_no_value(world: MariaDbWorld) -> None:
    stream = holding(world, "secret", "b")
    with pytest.raises(SchemaConflict, match="row_by_row") as refused:
        stream.span(update(ACCOUNT, account(2, "b"), account(2, "secret")))
    assert "secret" not in str(refused.value)
    assert world.rows(ACCOUNT) == texts(account(1, "secret"), account(2, "b"))


def test_rows_on_which_those_of_others_depend_are_not_deleted_to_be_inserted_again(world: MariaDbWorld) -> None:
    stream = holding(world, "a", "b")
    world.do(
        "CREATE TABLE settlement.own (id int, FOREIGN KEY (id) REFERENCES settlement.account (id) ON DELETE CASCADE)",
        "INSERT INTO settlement.own VALUES (1)",
    )
    with pytest.raises(SchemaConflict, match="takes along those of settlement.own"):
        stream.span(*EXCHANGE)
    assert world.fetch("SELECT id FROM settlement.own") == ((1,),)
    assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"))


def test_values_of_a_column_that_a_person_added_are_not_deleted_also_where_it_has_a_default(
    world: MariaDbWorld,
) -> None:
    stream = holding(world, "a", "b")
    world.do(
        "ALTER TABLE settlement.account ADD COLUMN note varchar(20) DEFAULT (LOWER('NONE'))",
        "ALTER TABLE settlement.account ADD COLUMN size int AS (LENGTH(name)) VIRTUAL",
        "UPDATE settlement.account SET note = 'by hand'",
    )
    with pytest.raises(SchemaConflict, match="its column note is not of the sync"):
        stream.span(*EXCHANGE)
    world.do("ALTER TABLE settlement.account DROP COLUMN note")
    stream.span(*EXCHANGE)
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"))


# ---- findings -------------------------------------------------------------------------------------------------------


def test_findings_are_reported_once_and_until_their_table_is_put_in_place_again(world: MariaDbWorld) -> None:
    stream = published(world)
    stream.span(delete(ACCOUNT, **account(9)))
    found, through = read_findings(world.session, AT, STREAM, after=FindingsReported())
    assert [(one.table, one.kind) for one in found] == [("account", "delete met no row")]
    assert read_findings(world.session, AT, STREAM, after=through) == ((), through)
    # As a backup from before it leaves the table: its numbers begin again.
    world.do(f"TRUNCATE {AT}.finding")
    stream.span(delete(ACCOUNT, **account(8)))
    again, now = read_findings(world.session, AT, STREAM, after=through)
    assert (len(again), now.number) == (1, 1)
    publish(world, run_id="run-2", covered=50)
    assert read_findings(world.session, AT, STREAM, after=FindingsReported())[0] == ()
