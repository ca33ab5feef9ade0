"""Which findings a comparison is given: each until its table is put in place again, whatever happens to the others."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.findings import read_findings
from seamline.databases.postgres.ledger import create_tables
from seamline.domain.changes import FindingsReported
from seamline.ports import Joining
from tests.contract.behaviours import Applying, account
from tests.contract.joining_behaviours import LEG, carrying, passed
from tests.contract.worlds import PostgresWorld
from tests.log_topic import ACCOUNT, STREAM, TABLES, TRANSFER, delete, sync_plan


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld(TABLES, sink_database)
    yield one
    one.close()


NOTHING = FindingsReported()


def reported(world: PostgresWorld, *, after: FindingsReported = NOTHING) -> list[str]:
    return [finding.table for finding in read_findings(world.session, STREAM, after=after)[0]]


def test_a_finding_is_reported_still_when_another_table_has_joined(world: PostgresWorld) -> None:
    carrying(world, ACCOUNT).span(delete(ACCOUNT, **account(9)))
    world.sink().join(STREAM, passed(world, TRANSFER, rows=[LEG], at=10))
    assert reported(world) == ["account"]


def test_a_finding_is_over_when_its_table_was_loaded_again(world: PostgresWorld) -> None:
    carrying(world, ACCOUNT).span(delete(ACCOUNT, **account(9)))
    world.sink().join(STREAM, passed(world, ACCOUNT, rows=[account(1)], at=10))
    assert reported(world) == []


def test_what_an_incremental_snapshot_has_found_is_reported_by_the_stream_though_a_later_one_was_reported_before(
    world: PostgresWorld,
) -> None:
    stream = carrying(world, ACCOUNT)
    joining = passed(world, TRANSFER, rows=[LEG], at=0)
    whole, world.plan = world.plan, sync_plan(TABLES).incremental_plan(["transfer"], "0")
    Applying(world, stream=world.plan.stream_id("warehouse")).span(delete(TRANSFER, **{**LEG, "leg": 7}))
    world.plan = whole
    stream.span(delete(ACCOUNT, **account(9)))
    found, through = read_findings(world.session, STREAM, after=NOTHING)
    assert [one.table for one in found] == ["account"]
    world.sink().join(STREAM, joining)
    assert reported(world, after=through) == ["transfer"]


def test_what_is_found_after_the_destination_was_put_back_is_reported_though_its_number_was_reported_before(
    world: PostgresWorld,
) -> None:
    stream = carrying(world, ACCOUNT)
    stream.span(delete(ACCOUNT, **account(9)))
    before, far = read_findings(world.session, STREAM, after=NOTHING)
    assert len(before) == 1
    assert reported(world, after=far) == []
    # As a backup from before it leaves the table: its numbers begin again.
    world.session.execute("TRUNCATE seamline.finding RESTART IDENTITY")
    assert read_findings(world.session, STREAM, after=far) == ((), far)
    stream.span(delete(ACCOUNT, **account(8)))
    found, now = read_findings(world.session, STREAM, after=far)
    assert [one.table for one in found] == ["account"]
    assert now.number == far.number
    assert reported(world, after=now) == []


@pytest.mark.parametrize("is_upgraded", [False, True], ids=["as it was left", "upgraded"])
def test_what_an_earlier_version_found_is_reported_until_its_own_table_was_loaded_again(
    world: PostgresWorld, is_upgraded: bool
) -> None:
    carrying(world, ACCOUNT, TRANSFER).span(delete(ACCOUNT, **account(9)), delete(TRANSFER, **LEG))
    world.session.execute("ALTER TABLE seamline.finding DROP COLUMN over_at")
    world.session.execute(
        "INSERT INTO seamline.publication (run_id, stream, tables) VALUES ('later', %s, '[\"transfer\"]')",
        (str(STREAM),),
    )
    if is_upgraded:
        create_tables(world.session)
    assert reported(world) == ["account"]


def test_a_ledger_of_an_earlier_version_is_read_and_written_without_the_schemas_of_its_tables(
    world: PostgresWorld,
) -> None:
    carrying(world, ACCOUNT).span()
    world.session.execute("ALTER TABLE seamline.boundary DROP COLUMN fingerprint")
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None and [one.fingerprint for one in ledger.boundaries] == [""]
    joined = world.sink().join(STREAM, Joining("removing", kept_as={"account": "account__kept"}))
    assert joined.ledger.boundaries == ()
    create_tables(world.session)
    create_tables(world.session)


def test_fingerprints_of_an_earlier_version_are_read_and_their_column_is_renamed(world: PostgresWorld) -> None:
    carrying(world, ACCOUNT).span()
    world.session.execute("UPDATE seamline.boundary SET fingerprint = 'of before'")
    world.session.execute("ALTER TABLE seamline.boundary RENAME COLUMN fingerprint TO shape_mark")
    for _ in range(2):
        ledger = world.sink().read_ledger(STREAM)
        assert ledger is not None and [one.fingerprint for one in ledger.boundaries] == ["of before"]
        create_tables(world.session)
    assert world.session.execute("SELECT fingerprint FROM seamline.boundary").fetchall() == [("of before",)]
    # An older version, at work in between, has made its column again.
    world.session.execute("ALTER TABLE seamline.boundary ADD COLUMN shape_mark text")
    world.session.execute("UPDATE seamline.boundary SET fingerprint = NULL, shape_mark = 'of between'")
    create_tables(world.session)
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None and [one.fingerprint for one in ledger.boundaries] == ["of between"]


def test_a_publish_ends_the_findings_of_before(world: PostgresWorld) -> None:
    carrying(world, ACCOUNT).span(delete(ACCOUNT, **account(9)))
    carrying(world, ACCOUNT, run_id="run-2")
    assert reported(world) == []
