"""The whole way of a change on real servers: PostgreSQL, its capture, the log topic, the span loop, PostgreSQL."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import Diverged, SchemaConflict, TransientError
from seamline.domain.log import Transaction
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.model import StreamPlan
from seamline.sync import span_loop
from seamline.sync.transactions import TransactionAssembler
from tests.conftest import RunningStack
from tests.integration.altered import has_stopped
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.postgres_kinds import CASES, TYPES, create_table, rows
from tests.integration.streamed import Streamed, streamed
from tests.integration.typed_tables import typed_beside
from tests.waiting import wait_until


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("stream_pg") as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("stream_pg_warehouse") as connection:
        yield connection


def test_a_truncate_wipes_what_its_transaction_did_before_and_keeps_what_it_did_after(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')", "INSERT INTO audit VALUES (1, 'before')")
        with closing(bank.session()) as session, session.transaction():
            session.execute("INSERT INTO account VALUES (2, 2, 'wiped')")
            session.execute("INSERT INTO audit VALUES (2, 'wiped')")
            session.execute("TRUNCATE account, audit")
            session.execute("INSERT INTO account VALUES (3, 3, 'kept')")
            session.execute("INSERT INTO audit VALUES (3, 'kept'), (3, 'kept')")
        stream.wait_until_applied()
        assert stream.query("SELECT * FROM live.account") == [(3, 3, "kept")]
        assert stream.query("SELECT * FROM live.audit") == [(3, "kept"), (3, "kept")]
        bank.execute("TRUNCATE audit")
        stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.audit") == [(0,)]
        assert stream.findings() == 0


def test_maintenance_of_a_table_stops_no_stream(bank: PostgresCaptured, warehouse: Connection) -> None:
    """A rewrite takes the default of older rows out of the catalogue, whose row is another one then."""
    bank.execute("ALTER TABLE account ADD COLUMN grade int DEFAULT 5")
    # A default that was changed before makes no alteration of a rewrite.
    default = "ALTER TABLE audit ALTER COLUMN a SET DEFAULT 3"
    rewrites = ("VACUUM FULL account", "CLUSTER account USING account_pkey", default, "TRUNCATE audit")
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        for number, rewrite in enumerate((*rewrites, "REINDEX TABLE account", "ANALYZE account", "VACUUM FREEZE")):
            row = f"INSERT INTO account VALUES ({number}, 1, 'new')"
            bank.execute(rewrite, row, "INSERT INTO audit VALUES (1)")
            stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.account") == [(number + 1,)]
        assert stream.differences("account", "audit") == {}


# What becomes of the default of a column that was added with it: before the plan, and while the stream goes on.
DEFAULT = "ALTER TABLE account ALTER COLUMN fee"
COMPUTED = {
    "default as it was": ((), ()),
    "default dropped before": ((f"{DEFAULT} DROP DEFAULT",), ()),
    "default dropped meanwhile": ((), (f"{DEFAULT} DROP DEFAULT",)),
    "another default meanwhile": ((), (f"{DEFAULT} SET DEFAULT 6",)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_values_computed_again_of_a_column_that_was_added_with_a_default_stop_the_stream(
    name: str, bank: PostgresCaptured, warehouse: Connection
) -> None:
    """Another default alone does not: it changes no row that is stored."""
    before, meanwhile = COMPUTED[name]
    bank.execute("INSERT INTO account VALUES (1, 1, 'old')", "ALTER TABLE account ADD COLUMN fee int DEFAULT 5")
    # A stream of these tests begins with empty tables; the catalogue keeps the value of older rows all the same.
    bank.execute(*before, "DELETE FROM account")
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'a', 5)", *meanwhile, "INSERT INTO audit VALUES (1)")
        stream.wait_until_applied()
        bank.execute("ALTER TABLE account ALTER COLUMN fee TYPE int USING fee * 100", "INSERT INTO audit VALUES (2)")
        wait_until(lambda: has_stopped(stream, bank), timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "account.fee was altered and its table rewritten" in str(stream.error)
        assert stream.query("SELECT fee FROM live.account") == [(5,)]
        assert stream.query("SELECT count(*) FROM live.audit") == [(1,)]


@contextmanager
def nobody_to_wait_for(bank: PostgresCaptured) -> Iterator[None]:
    """Commits of sessions that want a standby's word wait for one that does not exist; all others go on."""
    with closing(bank.session()) as session:
        session.execute("ALTER SYSTEM SET synchronous_commit = local")
        session.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        session.execute("SELECT pg_reload_conf()")
        wait_until(lambda: shown(bank, "synchronous_standby_names") == "nobody", timeout_s=10, what="the settings")
        try:
            yield
        finally:
            session.execute("ALTER SYSTEM RESET synchronous_standby_names")
            session.execute("ALTER SYSTEM RESET synchronous_commit")
            session.execute("SELECT pg_reload_conf()")
            wait_until(
                lambda: not shown(bank, "synchronous_standby_names"), timeout_s=10, what="the settings to be gone"
            )


def shown(bank: PostgresCaptured, setting: str) -> str:
    with closing(bank.session()) as session:
        row = session.execute(f"SHOW {setting}".encode()).fetchone()
    return str(row[0]) if row else ""


def test_an_alteration_that_stands_in_the_log_and_is_not_visible_yet_is_waited_for(
    stack: RunningStack, warehouse: Connection
) -> None:
    """A commit is in the log before it is visible; with synchronous replication for as long as the standby takes."""
    create = ("CREATE TABLE account (id bigint PRIMARY KEY, code varchar(3))",)
    with (
        captured_postgres("limbo_pg", create=create, tables=("account",)) as bank,
        streamed(bank, warehouse, "account") as stream,
    ):
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 'abc')")
        stream.wait_until_applied()
        before = stream.query("SELECT * FROM live.account")
        with nobody_to_wait_for(bank), ThreadPoolExecutor(1) as pool, closing(bank.session()) as altering:
            altering.execute("SET synchronous_commit = on")
            statements = (
                "ALTER TABLE account ALTER COLUMN code TYPE varchar(9); INSERT INTO account VALUES (2, 'abcdef')"
            )
            waiting = pool.submit(altering.execute, statements.encode())
            wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to give up for now")
            assert isinstance(stream.error, TransientError)
            assert not waiting.done()
            with closing(bank.session()) as session:
                session.execute("SELECT pg_cancel_backend(%s)", (altering.info.backend_pid,))
            waiting.result(timeout=30)
        assert stream.query("SELECT * FROM live.account") == before
        stream.stop()
        stream.start()
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "account.code is now character varying(9)" in str(stream.error)
        assert stream.query("SELECT * FROM live.account") == before


def test_a_session_that_the_server_ended_in_between_does_not_end_the_stream(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    """An administrator ends sessions that are idle for long; the stream's with the catalogue is, on a quiet source."""
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')")
        stream.wait_until_applied()
        reader = resolve(bank.source_plan.reader).login
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s"
        with closing(bank.session()) as session:
            assert session.execute(ended, (reader,)).fetchall() == [(True,)]
        bank.execute("INSERT INTO account VALUES (2, 2, 'after')")
        stream.wait_until_applied()
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,)]
        assert stream.error is None


@pytest.fixture
def kinds(stack: RunningStack) -> Iterator[PostgresCaptured]:
    keyed = [create_table(name, key="id int PRIMARY KEY, ") for name in ("kinds", "kinds_strict")]
    strict = "ALTER TABLE kinds_strict " + ", ".join(f"ALTER {case.name} SET NOT NULL" for case in CASES)
    full = "ALTER TABLE kinds_keyless REPLICA IDENTITY FULL"
    create = (*TYPES, *keyed, strict, create_table("kinds_keyless"), full)
    with captured_postgres("kinds_pg", create=create, tables=("kinds", "kinds_strict", "kinds_keyless")) as one:
        yield one


def test_every_type_of_column_arrives_as_the_source_holds_it_and_in_the_typed_form(
    kinds: PostgresCaptured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        streamed(kinds, warehouse, "kinds", "kinds_strict", "kinds_keyless") as stream,
        typed_beside(stream, monkeypatch) as typed,
    ):
        stream.start()
        # Of a row that is deleted the log has the key alone, and for the rest what the capture makes up.
        kinds.execute(*(f"INSERT INTO kinds_strict VALUES ({n}, {values})" for n, values in enumerate(rows()[:-1])))
        kinds.execute("UPDATE kinds_strict SET id = id + 100 WHERE id > 2", "DELETE FROM kinds_strict WHERE id < 2")
        for number, values in enumerate(rows()):
            kinds.execute(f"INSERT INTO kinds VALUES ({number}, {values})")
            kinds.execute(*[f"INSERT INTO kinds_keyless VALUES ({values})"] * 3)
        stream.wait_until_applied()
        assert _differing(stream, kinds) == {}
        assert stream.differences("kinds", "kinds_strict", "kinds_keyless") == {}
        assert typed.differing("kinds") == typed.differing("kinds_keyless") == []
        # Every row is found again by every one of its values.
        kinds.execute("DELETE FROM kinds_keyless", "UPDATE kinds SET id = id + 100", "DELETE FROM kinds WHERE id > 103")
        stream.wait_until_applied()
        assert stream.differences("kinds", "kinds_keyless") == {}
        assert stream.query("SELECT count(*) FROM live.kinds_keyless") == [(0,)]
        assert typed.differing("kinds") == typed.differing("kinds_keyless") == []
        assert stream.findings() == 0


FLOATS = (
    "CREATE DOMAIN ratio AS double precision",
    "CREATE TABLE rate (id int PRIMARY KEY, f real, d double precision, r ratio)",
    "CREATE TABLE quote (d double precision)",
    "ALTER TABLE quote REPLICA IDENTITY FULL",
)
# What no tolerance distinguishes: the sign of zero, and the last place.
NEAREST = {
    "f": ("f = '0' WHERE id = 1", "-0", "0"),
    "d": ("d = 0.30000000000000004 WHERE id = 2", "0.3", "0.30000000000000004"),
    "r": ("r = '-0' WHERE id = 2", "0", "-0"),
}


def test_a_float_that_differs_by_its_sign_or_its_last_place_is_a_break_that_names_its_row(
    stack: RunningStack, warehouse: Connection
) -> None:
    with (
        captured_postgres("floats_pg", create=FLOATS, tables=("rate", "quote")) as bank,
        streamed(bank, warehouse, "rate", "quote") as stream,
    ):
        stream.start()
        bank.execute(
            "INSERT INTO rate VALUES (1, '-0', '-0', 1e23), (2, 'NaN', 0.3, 0)", "INSERT INTO quote VALUES (0)"
        )
        # A change of nothing but the sign of zero reaches the stream.
        bank.execute("UPDATE rate SET d = 0 WHERE id = 1", "UPDATE rate SET d = '-0' WHERE id = 1")
        bank.execute("UPDATE quote SET d = '-0'")
        stream.wait_until_applied()
        assert {one.verdict for one in stream.verdicts().values()} == {Verdict.MATCH}
        for column, (change, wanted, found) in NEAREST.items():
            stream.query(f"UPDATE live.rate SET {change} RETURNING id")
            key = f'{{"id": "{change[-1]}"}}'
            found_there = stream.verdicts()
            assert found_there["quote"].verdict is Verdict.MATCH
            assert found_there["rate"].breaks == (
                Break("rate", BreakType.VALUE, key, {column: wanted}, {column: found}),
            )
            stream.query(f"UPDATE live.rate SET {column} = '{wanted}' WHERE id = {change[-1]} RETURNING id")
        stream.query("UPDATE live.quote SET d = 0 RETURNING d")
        found = {(entry.type, entry.key) for entry in stream.verdicts()["quote"].breaks}
        assert found == {(BreakType.MISSING, '{"d": "-0"}'), (BreakType.UNEXPECTED, '{"d": "0"}')}
        # The row is found by the sign of its zero alone.
        stream.query("UPDATE live.quote SET d = '-0' RETURNING d")
        bank.execute("DELETE FROM quote")
        stream.wait_until_applied()
        assert {one.verdict for one in stream.verdicts().values()} == {Verdict.MATCH}
        assert stream.findings() == 0


def _differing(stream: Streamed, kinds: PostgresCaptured) -> dict[str, list[tuple[object, object]]]:
    """Per column the pairs of stored texts that differ, row by row."""
    found = {}
    for case in CASES:
        statement = f"SELECT {case.name}::text FROM {{}}.kinds ORDER BY id"
        there = stream.query(statement.format("live"))
        with closing(kinds.session()) as session:
            here = session.execute(statement.format("public").encode()).fetchall()
        pairs = [(mine, theirs) for (mine,), (theirs,) in zip(here, there, strict=True) if mine != theirs]
        if pairs:
            found[case.name] = pairs
    return found


LARGE = "repeat(md5(random()::text), 500)"
DOCUMENT = (
    "CREATE TABLE document (id bigint, part int, a int, body text, raw bytea, doc jsonb, verbatim json, exact numeric,"
    " bounds numrange, spans int4multirange, PRIMARY KEY (part, id))",
    *(f"ALTER TABLE document ALTER COLUMN {name} SET STORAGE EXTERNAL" for name in ("body", "raw", "doc", "verbatim")),
    *(f"ALTER TABLE document ALTER COLUMN {name} SET STORAGE EXTERNAL" for name in ("exact", "bounds", "spans")),
)


def insert_documents(first: int, last: int) -> str:
    values = f"n, 1, n, {LARGE}, {LARGE}::bytea, to_jsonb({LARGE}), to_json({LARGE})"
    exact = "('1' || repeat('9', 9000))::numeric"
    ranges = f"numrange(0, {exact}), (SELECT range_agg(int4range(2 * m, 2 * m + 1)) FROM generate_series(1, 900) m)"
    return f"INSERT INTO document SELECT {values}, {exact}, {ranges} FROM generate_series({first}, {last}) n"


def unavailable_in_log(one: PostgresCaptured) -> int:
    """How many records of the log lack a value: without any these tests would prove nothing."""
    with closing(one.open_log()) as reader:
        reader.assign(one.kafka.offsets(one.source_plan.log_topic)[0])
        records = wait_until(lambda: reader.poll(1.0, 100_000), timeout_s=30, what="the log")
        return sum(row.is_partial for record in records for row in record.rows)


@pytest.fixture
def documents(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("toast_pg", create=DOCUMENT, tables=("document",)) as one:
        yield one


def test_values_that_an_update_leaves_out_of_the_log_are_kept(
    documents: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(documents, warehouse, "document") as stream:
        stream.start()
        documents.execute(insert_documents(1, 40))
        stream.wait_until_applied()
        # One span each: a change alone; two of one row in one transaction; keys, also twice; a row made and changed.
        documents.execute("UPDATE document SET a = a + 1 WHERE id <= 10")
        with closing(documents.session()) as session, session.transaction():
            session.execute(f"UPDATE document SET body = {LARGE} WHERE id <= 5")
            session.execute("UPDATE document SET a = a + 1, raw = NULL WHERE id <= 6")
            session.execute("UPDATE document SET a = a + 1 WHERE id <= 5")
        documents.execute("UPDATE document SET id = id + 100 WHERE id BETWEEN 7 AND 20")
        with closing(documents.session()) as session, session.transaction():
            session.execute("UPDATE document SET a = 7, doc = NULL WHERE id = 21")
            session.execute("UPDATE document SET id = 221 WHERE id = 21")
            session.execute("UPDATE document SET part = 2 WHERE id = 221")
            session.execute("UPDATE document SET a = 8 WHERE id = 221")
            session.execute(insert_documents(21, 21))
            session.execute("UPDATE document SET id = 321 WHERE id = 21")
            session.execute("DELETE FROM document WHERE id = 22")
            session.execute("UPDATE document SET id = 22 WHERE id = 23")
        stream.wait_until_applied()
        assert unavailable_in_log(documents) > 30
        assert stream.differences("document") == {}
        assert stream.findings() == 0


def test_keys_change_amid_a_transaction_larger_than_memory_and_large_values_stay(
    documents: PostgresCaptured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into chunks of seven rows, an odd number, so that some end between the halves of a change of key."""
    monkeypatch.setattr(span_loop, "Pace", partial(span_loop.Pace, chunk_rows_max=7, poll_records_max=5))
    take_chunk, taken = TransactionAssembler.take_chunk, list[int]()

    def counted(assembler: TransactionAssembler) -> Transaction:
        taken.append(assembler.open_rows)
        return take_chunk(assembler)

    monkeypatch.setattr(TransactionAssembler, "take_chunk", counted)
    with streamed(documents, warehouse, "document") as stream:
        stream.start()
        documents.execute(insert_documents(1_001, 1_060))
        stream.wait_until_applied()
        with closing(documents.session()) as session, session.transaction():
            session.execute(f"UPDATE document SET body = {LARGE}, a = 5 WHERE id BETWEEN 1020 AND 1040")
            session.execute("UPDATE document SET raw = NULL, doc = NULL WHERE id BETWEEN 1030 AND 1050")
            session.execute("DELETE FROM document WHERE id BETWEEN 1055 AND 1060")
            session.execute("UPDATE document SET id = id + 1000 WHERE id BETWEEN 1001 AND 1060")
            session.execute("UPDATE document SET a = a + 1 WHERE id % 3 = 0 AND id > 2000")
            session.execute("UPDATE document SET part = part + 1, id = id - 990 WHERE id BETWEEN 2001 AND 2050")
            session.execute(insert_documents(2_001, 2_010))
            session.execute("UPDATE document SET id = id + 10 WHERE id BETWEEN 2001 AND 2010")
        stream.wait_until_applied()
        assert len(taken) > 20
        assert unavailable_in_log(documents) > 100
        assert stream.differences("document") == {}
        assert stream.findings() == 0


DIGITS = "repeat('0123456789', 1000)"


def test_values_outside_of_the_row_are_kept_in_a_column_whose_storage_is_plain_now(
    stack: RunningStack, warehouse: Connection
) -> None:
    """SET STORAGE rewrites nothing: what lay outside of the row stays there, and an update leaves it out of the log."""
    create = (
        "CREATE DOMAIN note AS text",
        "CREATE TABLE doc (id int PRIMARY KEY, a int, body text, said note)",
        "ALTER TABLE doc ALTER body SET STORAGE EXTERNAL, ALTER said SET STORAGE EXTERNAL",
        f"INSERT INTO doc VALUES (1, 1, {DIGITS}, {DIGITS})",
        "ALTER TABLE doc ALTER body SET STORAGE PLAIN, ALTER said SET STORAGE PLAIN",
    )
    with (
        captured_postgres("plain_pg", create=create, tables=("doc",)) as bank,
        streamed(bank, warehouse, "doc") as stream,
    ):
        # A stream of these tests begins with empty tables.
        stream.query(f"INSERT INTO live.doc VALUES (1, 1, {DIGITS}, {DIGITS}) RETURNING id")
        stream.start()
        bank.execute("UPDATE doc SET a = 2")
        stream.wait_until_applied()
        assert stream.query("SELECT a, left(body, 10), left(said, 10) FROM live.doc") == [
            (2, "0123456789", "0123456789")
        ]
        assert stream.differences("doc") == {}


def test_a_truncate_amid_a_transaction_larger_than_memory_undoes_what_was_spilled(
    bank: PostgresCaptured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_loop, "Pace", partial(span_loop.Pace, chunk_rows_max=100, poll_records_max=50))
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account SELECT n, n, 'before' FROM generate_series(1, 10) n")
        stream.wait_until_applied()
        with closing(bank.session()) as session, session.transaction():
            session.execute("INSERT INTO account SELECT n, n, 'undone' FROM generate_series(100, 500) n")
            session.execute("INSERT INTO audit SELECT n % 3, 'undone' FROM generate_series(1, 300) n")
            session.execute("TRUNCATE account, audit")
            session.execute("INSERT INTO account SELECT n, n, 'kept' FROM generate_series(5, 350) n")
            session.execute("INSERT INTO audit SELECT n % 3, 'kept' FROM generate_series(1, 250) n")
            session.execute("UPDATE account SET a = a + 1 WHERE id % 2 = 0")
            session.execute("DELETE FROM audit WHERE a = 1")
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.findings() == 0


NAMED = (
    "CREATE TABLE named (k text PRIMARY KEY, a int, body text)",
    "ALTER TABLE named ALTER COLUMN body SET STORAGE EXTERNAL",
)


def test_the_row_under_an_old_key_of_any_characters_is_found(stack: RunningStack, warehouse: Connection) -> None:
    keys = r"VALUES (E'tab\there'), (E'two\nlines'), (E'quote\"\\'), ('grüße'), (E'\x01'), ('a=b,c'), ('17'), ('null')"
    with (
        captured_postgres("old_keys_pg", create=NAMED, tables=("named",)) as one,
        streamed(one, warehouse, "named") as stream,
    ):
        stream.start()
        one.execute(f"INSERT INTO named SELECT k, 1, {LARGE} FROM ({keys}) AS v(k)")
        stream.wait_until_applied()
        # The value that the second change leaves out stands in the span, then only in the destination.
        with closing(one.session()) as session, session.transaction():
            session.execute(f"UPDATE named SET body = {LARGE}")
            session.execute(r"UPDATE named SET k = k || E'\t1'")
        stream.wait_until_applied()
        assert stream.differences("named") == {}
        one.execute(r"UPDATE named SET k = k || E'\n2'")
        stream.wait_until_applied()
        assert unavailable_in_log(one) >= 16
        assert stream.differences("named") == {}
        assert stream.findings() == 0


def test_a_capture_from_before_a_setting_takes_it_over_at_the_next_onboarding_and_loses_nothing(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account") as stream:
        stream.start()
        bank.ensure()
        config = bank.client.config(bank.connector.name) or {}
        before = {name: value for name, value in config.items() if not name.startswith("header.")}
        assert before != config
        bank.client.put_config(bank.connector.name, before)
        bank.execute("INSERT INTO account SELECT n, n, 'old setting' FROM generate_series(1, 50) n")
        assert bank.ensure().changed
        assert bank.client.config(bank.connector.name) == config
        bank.execute("UPDATE account SET a = a + 1")
        stream.wait_until_applied()
        assert stream.differences("account") == {}
        assert stream.findings() == 0


def test_values_left_out_are_found_in_a_transaction_larger_than_memory(
    documents: PostgresCaptured, warehouse: Connection
) -> None:
    options = StreamPlan(span_changes_max=50)
    with streamed(documents, warehouse, "document", options=options) as stream:
        stream.start()
        documents.execute(insert_documents(1, 60))
        stream.wait_until_applied()
        with closing(documents.session()) as session, session.transaction():
            session.execute(f"UPDATE document SET body = {LARGE} WHERE id <= 30")
            session.execute("UPDATE document SET a = a + 1")
            session.execute("UPDATE document SET a = a + 1, raw = NULL WHERE id % 3 = 0")
            session.execute("UPDATE document SET a = a + 1")
            session.execute("DELETE FROM document WHERE id % 7 = 0")
            session.execute(insert_documents(7, 7))
            session.execute("UPDATE document SET a = a + 1")
        stream.wait_until_applied()
        assert unavailable_in_log(documents) > 200
        assert stream.differences("document") == {}
        assert stream.findings() == 0


def test_a_value_left_out_of_a_row_that_the_destination_lost_stops_the_stream(
    documents: PostgresCaptured, warehouse: Connection
) -> None:
    with streamed(documents, warehouse, "document") as stream:
        stream.start()
        documents.execute(insert_documents(1, 2))
        stream.wait_until_applied()
        stream.query("DELETE FROM live.document WHERE id = 1 RETURNING id")
        documents.execute("UPDATE document SET a = 5 WHERE id = 1")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, Diverged)
        assert stream.query("SELECT id FROM live.document") == [(2,)]
