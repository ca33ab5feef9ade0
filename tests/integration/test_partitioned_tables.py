"""A partitioned table is kept as one: its snapshot has the rows of all partitions, its stream their changes. What moves
rows in or out of it without the log stops the stream before a wrong row.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.domain.verdict import Verdict
from seamline.sources.postgres.client import role
from seamline.sources.postgres.sessions import join_snapshot, views_at_one_snapshot
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import Records, run_of, staged_names, tools_of
from tests.integration.streamed import streamed

WAREHOUSE = destination_plan("partitioned_pg_warehouse", "bank")
OF_YEAR = "FOR VALUES FROM ('{0}-01-01') TO ('{1}-01-01')"
# One of its partitions has its columns in another order, and lost one; one has partitions itself.
CREATE = (
    "CREATE TABLE entry (id bigint, at date, memo text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE entry_2024 (memo text, old int, at date NOT NULL, id bigint NOT NULL)",
    "ALTER TABLE entry_2024 DROP COLUMN old",
    f"ALTER TABLE entry ATTACH PARTITION entry_2024 {OF_YEAR.format(2024, 2025)}",
    f"CREATE TABLE entry_2025 PARTITION OF entry {OF_YEAR.format(2025, 2026)}",
    f"CREATE TABLE entry_2026 PARTITION OF entry {OF_YEAR.format(2026, 2027)} PARTITION BY HASH (id)",
    "CREATE TABLE entry_2026_even PARTITION OF entry_2026 FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE entry_2026_odd PARTITION OF entry_2026 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
)
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)"
FILL = (
    "INSERT INTO entry SELECT n, date '2024-06-01' + n, 'row ' || n FROM generate_series(0, 900) n",
    f"INSERT INTO entry VALUES (-1, '2025-05-05', {LARGE})",
)


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("partitioned_pg", create=CREATE, tables=("entry",), destinations=(WAREHOUSE,)) as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


def test_changes_of_all_partitions_arrive_also_of_those_that_appear_while_the_stream_runs(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    assert not [one for one in bank.source.preflight(bank.source.catalogue(["entry"])) if one.is_fatal]
    with streamed(bank, warehouse, "entry") as stream:
        stream.start()
        bank.execute(*FILL)
        # Into another partition, by hand into one, and a value that lies outside of its row.
        bank.execute(
            "UPDATE entry SET at = at + 365 WHERE id < 100",
            "UPDATE entry SET memo = 'by hand' WHERE at > '2026-01-01'",
            "INSERT INTO entry_2026_odd SELECT n, '2026-12-31', 'odd' FROM generate_series(10001, 10100) n"
            " WHERE satisfies_hash_partition('entry_2026'::regclass, 2, 1, n::bigint)",
            "DELETE FROM entry_2024 WHERE id % 7 = 0",
            "UPDATE entry SET at = '2026-03-03' WHERE id = -1",
            "UPDATE entry SET id = -2 WHERE id = -1",
        )
        stream.wait_until_applied()
        assert stream.differences("entry") == {}
        bank.execute(
            f"CREATE TABLE entry_2027 PARTITION OF entry {OF_YEAR.format(2027, 2028)}",
            "INSERT INTO entry SELECT n, '2027-02-02', 'new' FROM generate_series(1, 50) n",
            "UPDATE entry SET memo = 'newer' WHERE at > '2027-01-01' AND id < 20",
        )
        stream.wait_until_applied()
        # As tools make them ahead of their time: the next change finds it attached and empty.
        bank.execute("CREATE TABLE entry_2028 (LIKE entry INCLUDING ALL)")
        bank.execute(f"ALTER TABLE entry ATTACH PARTITION entry_2028 {OF_YEAR.format(2028, 2029)}")
        bank.execute("UPDATE entry SET memo = 'next' WHERE id = 20")
        stream.wait_until_applied()
        bank.execute("INSERT INTO entry SELECT n, '2028-02-02', 'newest' FROM generate_series(1, 50) n")
        bank.execute(
            "ALTER TABLE entry_2028 RENAME TO entry_of_2028",
            "UPDATE entry SET at = '2028-03-03' WHERE id < 9 AND at < '2027-01-01'",
        )
        stream.wait_until_applied()
        assert {one.verdict for one in stream.verdicts().values()} == {Verdict.MATCH}
        assert stream.query("SELECT count(*) FROM live.entry WHERE at > '2027-01-01'") == [(50 + 50 + 10,)]
        assert stream.findings() == 0


ATTACH = f"ALTER TABLE entry ATTACH PARTITION brought {OF_YEAR.format(2027, 2028)}"
BRING = "CREATE TABLE brought (LIKE entry INCLUDING ALL); INSERT INTO brought VALUES (5000, '2027-05-05', 'brought')"
# What is done, each a transaction, and what is said of it.
UNTOLD = {
    "detached": (("ALTER TABLE entry DETACH PARTITION entry_2025",), "entry_2025 of entry was detached or dropped"),
    "detached for a while": (
        (
            "ALTER TABLE entry DETACH PARTITION entry_2025",
            "DELETE FROM entry_2025",
            f"ALTER TABLE entry ATTACH PARTITION entry_2025 {OF_YEAR.format(2025, 2026)}",
        ),
        "entry_2025 of entry was detached and attached again",
    ),
    "dropped": (("DROP TABLE entry_2026_odd",), "entry_2026_odd of entry was detached or dropped"),
    "emptied": (("TRUNCATE entry_2025",), "entry_2025 of entry was emptied or rewritten"),
    "attached with rows": ((BRING, ATTACH), "brought of entry was attached with rows"),
    "made, filled and attached in one transaction": (
        (f"{BRING}; {ATTACH}",),
        "brought of entry was attached with rows",
    ),
    "not logged": (
        (f"CREATE UNLOGGED TABLE brought PARTITION OF entry {OF_YEAR.format(2027, 2028)}",),
        "partition public.brought is unlogged",
    ),
    "changes without their key": (
        ("ALTER TABLE entry_2025 REPLICA IDENTITY NOTHING",),
        "the replica identity of partition public.entry_2025",
    ),
}


def test_rows_that_come_or_go_without_the_log_stop_the_stream_before_the_next_change(
    stack: RunningStack, bank: PostgresCaptured, warehouse: Connection
) -> None:
    """All in one stream each, from the same start: what was done is undone by loading the table again."""
    for statements, said in UNTOLD.values():
        bank.execute("DROP TABLE IF EXISTS entry, entry_2025, brought CASCADE", *CREATE, *bank.publishing("entry"))
        with postgres(warehouse) as session:
            session.execute("DROP SCHEMA IF EXISTS live CASCADE")
            session.execute("DROP SCHEMA IF EXISTS seamline CASCADE")
        with streamed(bank, warehouse, "entry") as stream:
            stream.start()
            bank.execute("INSERT INTO entry VALUES (1, '2025-01-01', 'before')")
            stream.wait_until_applied()
            bank.execute(*statements, "INSERT INTO entry VALUES (2, '2024-02-02', 'after')")
            with pytest.raises(SchemaConflict, match=said):
                stream.wait_until_applied()
            assert stream.query("SELECT id FROM live.entry") == [(1,)], said


def test_a_snapshot_has_the_rows_of_every_partition_and_the_catalogue_is_held_to_the_plan(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    bank.execute(*FILL)
    bank.ensure()
    run = run_of(bank, ("entry",))
    staged = staged_names(take_snapshot(run, tools_of(bank, run, Records())))["entry"]
    texts = "SELECT e::text FROM {} e ORDER BY id, at"
    with closing(bank.session()) as source, postgres(warehouse) as destination:
        here = source.execute(texts.format("entry").encode()).fetchall()
        assert len(here) == 902
        assert destination.execute(texts.format(f'bank_stage."{staged}"').encode()).fetchall() == here
    assert bank.source.catalogue(["entry"])[0].rows_estimate >= 0
    bank.execute("ALTER TABLE entry DETACH PARTITION entry_2024")
    with pytest.raises(SchemaConflict, match="since this run was planned: .*entry_2024 of entry was detached"):
        take_snapshot(run, tools_of(bank, run, Records()))


BETWEEN = {
    "detached": "ALTER TABLE entry DETACH PARTITION entry_2024",
    "emptied": "TRUNCATE entry_2025",
    "attached": f"CREATE TABLE entry_2030 PARTITION OF entry {OF_YEAR.format(2030, 2031)}",
}


def test_a_table_whose_partitions_are_others_since_the_snapshot_was_opened_is_not_read(bank: PostgresCaptured) -> None:
    """Names and partitions are those of now, rows those of the snapshot."""
    source = bank.source_plan
    for statement in BETWEEN.values():
        with views_at_one_snapshot(source, 1, tables=()) as opened:
            join_snapshot(role(source, source.reader), opened.shared, tables=[source.places.of("entry")]).close()
            bank.execute(statement)
            with pytest.raises(TransientError, match="entry was truncated, rewritten or replaced, or its partitions"):
                join_snapshot(role(source, source.reader), opened.shared, tables=[source.places.of("entry")])


def test_a_publication_that_tells_partitions_by_their_own_names_is_refused_with_the_cure(
    bank: PostgresCaptured,
) -> None:
    publication = bank.source_plan.publication
    bank.execute(f'ALTER PUBLICATION "{publication}" SET (publish_via_partition_root = false)')
    (problem,) = (one for one in bank.source.preflight(bank.source.catalogue(["entry"])) if one.is_fatal)
    assert "reports the changes of table entry as of its partitions" in problem.what
    assert problem.cure.startswith(f'ALTER PUBLICATION "{publication}" SET (publish_via_partition_root = true)')
    bank.execute(problem.cure.partition(",")[0], *bank.publishing("entry_2025"))
    (problem,) = (one for one in bank.source.preflight(bank.source.catalogue(["entry_2025"])) if one.is_fatal)
    assert "entry_2025 is a partition" in problem.what and "name the partitioned table" in problem.cure
