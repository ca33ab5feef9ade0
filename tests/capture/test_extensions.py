"""Types of extensions that a source has and its destination need not: each is stored as what it says."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.verdict import Verdict
from seamline.stack import postgres as local_postgres
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration import encrypting_postgres
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.replicated import restorable_postgres
from tests.integration.snapshot_run import Records, run_of, staged_names, tools_of
from tests.integration.streamed import streamed

WAREHOUSE = destination_plan("extensions_warehouse", "bank")
TABLES = ("client", "login")
CREATE = (
    "CREATE SCHEMA extensions",
    "CREATE EXTENSION hstore SCHEMA extensions",
    "CREATE EXTENSION citext SCHEMA extensions",
    "CREATE EXTENSION ltree SCHEMA extensions",
    "CREATE DOMAIN email AS extensions.citext",
    "CREATE TABLE client (id int PRIMARY KEY, name extensions.citext, mail email, attributes extensions.hstore)",
    "CREATE TABLE login (name extensions.citext PRIMARY KEY, n int, place extensions.ltree)",
)
LARGE = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 300) n)"
ROWS = (
    "(1, 'Ada', 'Ada@Example.com', 'a=>1')",
    "(2, 'ada ', '', '')",
    r"""(3, E'ü€😀 "q" \\ \n', NULL, '"say \"it\""=>"back\\slash, =>", "ü€"=>"😀", ""=>""')""",
    """(4, NULL, 'x', '"longer key"=>"x", "b"=>NULL, "aa"=>"NULL", "n"=>"1.10"')""",
    "(5, 'none', 'y', NULL)",
    f"(6, {LARGE}, {LARGE}, extensions.hstore('large', {LARGE}))",
)


@pytest.fixture(scope="module")
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    """The stack's own server comes without extensions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_postgres, "binaries", encrypting_postgres.binaries)
        with (
            restorable_postgres(),
            captured_postgres("extensions_pg", create=CREATE, tables=TABLES, destinations=(WAREHOUSE,)) as one,
        ):
            yield one


@pytest.fixture
def warehouse(bank: PostgresCaptured) -> Iterator[Connection]:
    """Without the extensions."""
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


def test_texts_without_case_and_pairs_arrive_as_texts_and_documents_by_both_paths(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, *TABLES) as stream:
        stream.start()
        bank.execute(*(f"INSERT INTO client VALUES {row}" for row in ROWS))
        # Large values that the update leaves alone are not in the log.
        bank.execute("UPDATE client SET id = id + 10 WHERE id < 3", "UPDATE client SET mail = 'Z' WHERE id > 3")
        bank.execute("UPDATE client SET name = upper(name) WHERE id = 11")
        stream.wait_until_applied()
        assert {one.verdict for one in stream.verdicts().values()} == {Verdict.MATCH}
        here = "SELECT id, name::text, mail::text, attributes::jsonb::text FROM {} ORDER BY id"
        with closing(bank.session()) as source:
            rows = source.execute(here.format("client").encode()).fetchall()
        assert stream.query(here.format("live.client")) == rows
        assert stream.findings() == 0
    run = run_of(bank, ("client",))
    staged = staged_names(take_snapshot(run, tools_of(bank, run, Records())))["client"]
    with postgres(warehouse) as session:
        assert session.execute(here.format(f'bank_stage."{staged}"').encode()).fetchall() == rows


def test_a_key_without_case_is_told_apart_by_its_letters(bank: PostgresCaptured, warehouse: Connection) -> None:
    with streamed(bank, warehouse, *TABLES) as stream:
        stream.start()
        bank.execute("INSERT INTO login VALUES ('Ada', 1, 'top.A.a'), ('bob', 2, ''), ('Eve', 3, NULL)")
        bank.execute(
            # Without it, operators are those of text.
            "SET search_path = public, extensions",
            "UPDATE login SET name = 'ADA' WHERE name = 'ada'",
            "UPDATE login SET n = 4 WHERE name = 'BOB'",
            "DELETE FROM login WHERE name = 'eve'",
        )
        stream.wait_until_applied()
        assert stream.query("SELECT * FROM live.login ORDER BY n") == [("ADA", 1, "top.A.a"), ("bob", 4, "")]
        stream.query("UPDATE live.login SET n = 9 WHERE name = 'bob' RETURNING n")
        assert [one.key for one in stream.verdicts()["login"].breaks] == ['{"name": "bob"}']
