"""Unique values that change places under an index which somebody added to a live table and which is checked row by row:
the span is applied once more in another order. Only a real server has such an index.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import Fenced, SchemaConflict
from seamline.ports import Commit
from seamline.sinks.postgres.statements import SpanStatements, TableStatements
from seamline.sync.compaction import compact
from seamline.sync.transactions import TransactionAssembler
from tests.contract.behaviours import Applying, account, texts
from tests.contract.unavailable_value_behaviours import assert_stored, numbered, opened
from tests.contract.worlds import PostgresWorld
from tests.log_topic import ACCOUNT, MARKERS, STREAM, TABLES, TRANSFER, Change, LogTopic, delete, insert, update
from tests.log_topic import publication as publication_of
from tests.toast_log import NOTE

# Below and above the number of rows that travel with the statements themselves.
BESIDE = pytest.mark.parametrize("beside", [0, 400], ids=["few rows", "many rows"])
INDEX = "CREATE UNIQUE INDEX row_by_row ON settlement.account (name)"


class Counting:
    """Failpoints that count how often each was reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def reach(self, name: str) -> None:
        self.reached.append(name)

    @property
    def begun(self) -> int:
        return self.reached.count("app.dest_begin")


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld(TABLES, sink_database)
    yield one
    one.close()


def holding(world: PostgresWorld, *names: str, index: str = INDEX) -> Applying:
    """A stream into accounts 1, 2, … of these names, with the index."""
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES], publication=publication_of())
    stream = Applying(world, sink=world.sink(failpoints=Counting()))
    stream.span(*(insert(ACCOUNT, **account(number, name)) for number, name in enumerate(names, 1)))
    world.session.execute(index)
    return stream


def begun(stream: Applying) -> int:
    counting = stream.sink._failpoints  # type: ignore[attr-defined]  # noqa: SLF001
    return int(counting.begun)


def swap(*, beside: int = 0) -> list[Change]:
    """Accounts 1 and 2 exchange their names `a` and `b`, by way of a third one."""
    return [
        update(ACCOUNT, account(1, "a"), account(1, "between")),
        update(ACCOUNT, account(2, "b"), account(2, "a")),
        update(ACCOUNT, account(1, "between"), account(1, "b")),
        *(insert(ACCOUNT, **account(1000 + number, f"beside {number}")) for number in range(beside)),
    ]


def rest(count: int) -> list[dict[str, Any]]:
    return [account(1000 + number, f"beside {number}") for number in range(count)]


def in_one_span(stream: Applying, *transactions: Sequence[Change]) -> Commit:
    log = LogTopic()
    for changes in transactions:
        log.transaction(*changes)
    tables = {table.name: table for table in TABLES}
    transactions = TransactionAssembler(tables, marker_table=MARKERS).feed(log.records)
    batches: list[TableChanges] = list(compact(transactions, tables=tables, gate=BoundaryGate({})).values())
    staged = [stream.sink.stage(stream.lease, batch) for batch in batches]
    commit = stream.sink.commit(stream.lease, staged, progress=stream.progress())
    stream.next_offset = commit.ledger.next_offset
    return commit


@BESIDE
def test_values_that_change_places_in_one_transaction_are_applied(world: PostgresWorld, beside: int) -> None:
    stream = holding(world, "a", "b", "c")
    before = begun(stream)
    stream.span(*swap(beside=beside))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "c"), *rest(beside))
    assert world.findings() == []
    assert begun(stream) == before + 2
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert (ledger.next_offset, ledger.applied_transactions) == (stream.next_offset, 2)


def test_a_span_in_which_nothing_changes_places_is_applied_once(world: PostgresWorld) -> None:
    stream = holding(world, "a", "b", "c")
    stream.span(*swap())
    before = begun(stream)
    stream.span(update(ACCOUNT, account(3, "c"), account(3, "d")))
    assert begun(stream) == before + 1
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "d"))


def test_a_value_that_goes_on_from_row_to_row_over_three_transactions_of_one_span_is_applied(
    world: PostgresWorld,
) -> None:
    stream = holding(world, "a")
    before = begun(stream)
    in_one_span(
        stream,
        [insert(ACCOUNT, **account(2, "b"))],
        [update(ACCOUNT, account(1, "a"), account(1, "c"))],
        [update(ACCOUNT, account(2, "b"), account(2, "a"))],
    )
    assert begun(stream) == before + 2
    assert world.rows(ACCOUNT) == texts(account(1, "c"), account(2, "a"))
    assert world.findings() == []


def gone_and_come(world: PostgresWorld) -> Applying:
    """The value of a key that goes comes under another one, which the span knows before it."""
    stream = holding(world, "a")
    moved = account(9, "for a moment")
    stream.span(insert(ACCOUNT, **moved), delete(ACCOUNT, **account(1, "a")), update(ACCOUNT, moved, account(9, "a")))
    return stream


def test_a_value_that_goes_with_one_key_and_comes_with_another_is_applied(world: PostgresWorld) -> None:
    stream = gone_and_come(world)
    assert begun(stream) == 3
    assert world.rows(ACCOUNT) == texts(account(9, "a"))
    stream.span(delete(ACCOUNT, **account(9, "a")), insert(ACCOUNT, **account(1, "a")))
    assert world.rows(ACCOUNT) == texts(account(1, "a"))
    assert world.findings() == []


def test_two_tables_whose_values_change_places_in_one_span_are_applied(world: PostgresWorld) -> None:
    stream = holding(world, "a", "b")
    legs = [{"tx": 1, "leg": leg, "amount": f"{leg}.0000"} for leg in (1, 2)]
    stream.span(*(insert(TRANSFER, **leg) for leg in legs))
    world.session.execute("CREATE UNIQUE INDEX ON settlement.transfer (amount)")
    swapped = [{**legs[0], "amount": "2.0000"}, {**legs[1], "amount": "1.0000"}]
    stream.span(*swap(), *(update(TRANSFER, old, new) for old, new in zip(legs, swapped, strict=True)))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"))
    assert world.rows(TRANSFER) == texts(*swapped)


def test_values_that_change_places_in_chunks_of_a_large_transaction_are_applied(world: PostgresWorld) -> None:
    stream = holding(world, "a", "b", "c")
    before = begun(stream)
    stream.span(*swap(beside=9), chunks=4)
    assert begun(stream) == before + 2
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "c"), *rest(9))
    assert world.findings() == []
    left = world.session.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'seamline_chunks%'").fetchone()
    assert left == (0,)


@BESIDE
def test_a_true_conflict_stops_by_name_and_applies_nothing(world: PostgresWorld, beside: int) -> None:
    stream = holding(world, "a", "b", "c")
    at = stream.next_offset
    with pytest.raises(SchemaConflict, match="row_by_row") as caught:
        stream.span(*swap(beside=beside), update(ACCOUNT, account(3, "c"), account(3, "a")))
    assert caught.value.table == "account"
    assert caught.value.position
    assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"), account(3, "c"))
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert ledger.next_offset == at
    stream.span(*swap(beside=beside))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "c"), *rest(beside))


@BESIDE
def test_the_findings_are_those_of_the_first_order(sink_database: Connection, beside: int) -> None:
    changes = [
        insert(ACCOUNT, **account(3, "met")),
        update(ACCOUNT, account(50, "x"), account(50, "no row")),
        delete(ACCOUNT, **account(60, "no row")),
        insert(ACCOUNT, **account(4, "d")),
        delete(ACCOUNT, **account(4, "d")),
        insert(ACCOUNT, **account(70, "for a moment")),
        delete(ACCOUNT, **account(70, "for a moment")),
        *swap(beside=beside),
    ]
    found = {}
    for index in (INDEX, "SELECT 1"):
        world = PostgresWorld(TABLES, sink_database)
        try:
            stream = holding(world, "a", "b", "c", "d", index=index)
            commit = stream.span(*changes)
            found[index] = (
                sorted(commit.findings, key=lambda one: one.offset),
                commit.findings_total,
                world.findings(),
                world.rows(ACCOUNT),
            )
        finally:
            world.close()
    assert found[INDEX] == found["SELECT 1"]
    assert [finding.kind for finding in found[INDEX][2]] == [
        "insert met a row",
        "update met no row",
        "delete met no row",
        "insert met a row",
    ]


@pytest.mark.parametrize("action", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_rows_that_others_refer_to_stop_the_stream_and_lose_nothing(world: PostgresWorld, action: str) -> None:
    stream = holding(world, "a", "b")
    world.session.execute("CREATE SCHEMA IF NOT EXISTS people")
    world.session.execute("DROP TABLE IF EXISTS people.card")
    world.session.execute(
        f"CREATE TABLE people.card (owner int CONSTRAINT held REFERENCES settlement.account {action})"
    )
    world.session.execute("INSERT INTO people.card VALUES (1)")
    try:
        with pytest.raises(SchemaConflict, match=r"row_by_row.*cannot be deleted and inserted again.*held") as caught:
            stream.span(*swap())
        assert "DEFERRABLE" in caught.value.hint
        assert world.session.execute("SELECT owner FROM people.card").fetchall() == [(1,)]
        assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"))
    finally:
        world.session.execute("DROP TABLE people.card")


def test_rows_that_hold_values_of_others_stop_the_stream_and_keep_them(world: PostgresWorld) -> None:
    stream = holding(world, "a", "b")
    world.session.execute("ALTER TABLE settlement.account ADD COLUMN remark text")
    world.session.execute("UPDATE settlement.account SET remark = 'mine'")
    with pytest.raises(SchemaConflict, match=r"row_by_row.*column remark"):
        stream.span(*swap())
    assert world.session.execute("SELECT DISTINCT remark FROM settlement.account").fetchall() == [("mine",)]


def test_a_new_owner_between_the_two_orders_fences_the_second(world: PostgresWorld) -> None:
    stream = holding(world, "a", "b")

    class Overtaken(Counting):
        def reach(self, name: str) -> None:
            super().reach(name)
            if name == "app.dest_begin" and self.begun == 2:
                world.sink().acquire(STREAM)

    stream.sink._failpoints = Overtaken()  # type: ignore[attr-defined]  # noqa: SLF001
    with pytest.raises(Fenced):
        stream.span(*swap())
    assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"))


# ---- published again ------------------------------------------------------------------------------------------------


def publish_again(world: PostgresWorld, *accounts: dict[str, Any], run_id: str = "run-2") -> None:
    loads = [world.load(table, accounts if table is ACCOUNT else []) for table in TABLES]
    world.sink().publish(STREAM, loads, publication=publication_of(run_id=run_id))


def written_at(world: PostgresWorld, number: int) -> tuple[Any, ...] | None:
    return world.session.execute("SELECT xmin FROM settlement.account WHERE id = %s", (number,)).fetchone()


def test_values_that_have_changed_places_are_published_into_a_table_with_a_unique_index(world: PostgresWorld) -> None:
    holding(world, "a", "b", "c", "d")
    before = written_at(world, 3)
    publish_again(world, account(1, "b"), account(2, "a"), account(3, "c"), account(5, "d"))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2, "a"), account(3, "c"), account(5, "d"))
    assert written_at(world, 3) == before, "a row that is as it was is not written"


def test_rows_that_differ_truly_under_a_unique_index_are_not_published(world: PostgresWorld) -> None:
    holding(world, "a", "b")
    with pytest.raises(SchemaConflict, match="row_by_row"):
        publish_again(world, account(1, "b"), account(2, "b"))
    assert world.rows(ACCOUNT) == texts(account(1, "a"), account(2, "b"))


def test_rows_on_which_those_of_others_depend_are_not_published_in_the_other_order(world: PostgresWorld) -> None:
    holding(world, "a", "b")
    world.session.execute("CREATE TABLE settlement.own (account int REFERENCES settlement.account ON DELETE CASCADE)")
    world.session.execute("INSERT INTO settlement.own VALUES (1)")
    with pytest.raises(SchemaConflict, match=r"row_by_row.*settlement\.own"):
        publish_again(world, account(1, "b"), account(2, "a"))
    assert world.session.execute("SELECT account FROM settlement.own").fetchall() == [(1,)]


# ---- values that the log left out -----------------------------------------------------------------------------------


@pytest.fixture
def notes(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld([NOTE], sink_database)
    yield one
    one.close()


def exchange_titles(world: PostgresWorld, *, beside: int) -> list[dict[str, Any]]:
    """Rows 0 and 1 exchange their titles, and their log leaves the large values out; others get new titles."""
    rows = [{**row, "title": f"t {row['id']}"} for row in numbered(2 + beside)]
    stream = opened(world, *rows)
    world.session.execute('CREATE UNIQUE INDEX row_by_row ON settlement."no%table" (title)')
    first, second, *others = rows
    aside = {**first, "title": "aside"}
    named = [{**row, "title": f"u {row['id']}"} for row in others]
    swapped = [{**first, "title": "t 1"}, {**second, "title": "t 0"}, *named]
    stream.span((first, aside), (second, swapped[1]), (aside, swapped[0]), *zip(others, named, strict=True))
    return swapped


@BESIDE
def test_a_row_written_again_keeps_the_values_that_its_log_left_out(notes: PostgresWorld, beside: int) -> None:
    assert_stored(notes, *exchange_titles(notes, beside=beside))


def test_a_row_written_again_keeps_what_all_chunks_of_its_transaction_left_out(notes: PostgresWorld) -> None:
    first, second = rows = [{**row, "title": f"t {row['id']}"} for row in numbered(2)]
    stream = opened(notes, *rows)
    notes.session.execute('CREATE UNIQUE INDEX row_by_row ON settlement."no%table" (title)')
    aside = {**first, "title": "aside", "body": "large and new"}
    swapped = [{**aside, "title": "t 1"}, {**second, "title": "t 0"}]
    stream.chunks([(first, aside)], [(second, swapped[1])], [(aside, swapped[0])])
    assert_stored(notes, *swapped)


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def test_a_stored_value_that_is_not_read_before_its_row_goes_is_caught(
    notes: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_apart = SpanStatements.set_apart

    def planted(on: SpanStatements, images: str) -> str:
        text = set_apart(on, images)
        assert "THEN t." in text, "the planted bug no longer fits the statement"
        return re.sub(r'THEN t\."[^"]+"', "THEN NULL", text)

    monkeypatch.setattr(SpanStatements, "set_apart", planted)
    swapped = exchange_titles(notes, beside=0)
    with pytest.raises(AssertionError):
        assert_stored(notes, *swapped)


def test_a_row_that_comes_again_though_it_was_deleted_is_caught(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = TableStatements.__dict__["insert_images"].fget
    monkeypatch.setattr(TableStatements, "insert_images", property(lambda on: statement(on).partition(" WHERE ")[0]))
    gone_and_come(world)
    assert world.rows(ACCOUNT) != texts(account(9, "a"))
