"""Rows that differ, as pages ask a real PostgreSQL for them: some of many, counted, followed over dates."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from seamline.domain.baseline import Baseline, Buckets, Looked
from seamline.domain.break_id import identities, plain_id
from seamline.domain.digest import SegmentDigest
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.severity import differs
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.domain.witness import Mention, Moved, Witness
from seamline.platform import migrate
from seamline.platform.baselines import PlatformBaselines
from seamline.platform.breaks import Amount, Compared, Count, Money, Order, Place, PlatformBreaks, Wanted, selection
from seamline.platform.database import Database, Session
from seamline.platform.store import PlatformStore
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.platform_database import Server
from tests.integration.test_platform import empty as empty
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import reconciliation
from tests.integration.test_platform import server as server
from tests.integration.test_platform import store as store

DAY = date(2026, 3, 1)
AT = datetime(2026, 3, 2, tzinfo=UTC)
MANY = 20_000


@pytest.fixture
def breaks(server: Server) -> Iterator[PlatformBreaks]:
    with closing(PlatformBreaks(Database(server.open))) as opened:
        yield opened


def saved(store: PlatformStore, run_id: str, *tables: TableVerdict, days: int = 0) -> Compared:
    """The cut of a date, so many days after the first, as it was compared."""
    day, at = DAY + timedelta(days=days), AT + timedelta(days=days)
    made = replace(reconciliation(), run_id=run_id, business_date=day, tables=tables, started_at=at, ended_at=at)
    store.save_reconciliation(made)
    return Compared(run_id, made.destination)


def verdict(table: str, *found: Break) -> TableVerdict:
    return TableVerdict(table, Verdict.BREAK, breaks=found, breaks_total=len(found))


def one(table: str, key: str, kind: BreakType = BreakType.VALUE, **values: tuple[str | None, str | None]) -> Break:
    """`values`: of each differing column what both sides hold."""
    sides = [{name: pair[side] for name, pair in values.items()} for side in (0, 1)]
    return Break(table, kind, key, sides[0] or {"a": "1"}, sides[1] or {"a": "2"})


def test_pages_of_breaks_show_each_of_them_once_in_every_order(store: PlatformStore, breaks: PlatformBreaks) -> None:
    kinds = list(BreakType)
    tables = [
        verdict(name, *(one(name, f'["{number * 7 % 30:02}"]', kinds[number % 6]) for number in range(30)))
        for name in ("account", "payment")
    ]
    everything = [found for table in tables for found in table.breaks]
    compared = saved(store, "r1", *tables)
    for order, key in (
        (Order.FOUND, lambda _: ()),
        (Order.KEY, lambda found: found.key),
        (Order.TYPE, lambda found: found.type.value),
    ):
        pages: list[list[Break]] = []
        wanted = Wanted(order=order, limit=7)
        while found := breaks.some(compared, wanted):
            pages.append([each.found for each in found])
            wanted = replace(wanted, after=found[-1].place)
        assert [found for page in pages for found in page] == sorted(everything, key=key)
        assert {len(page) for page in pages[:-1]} == {7}
    assert breaks.some(replace(compared, run_id="another"), Wanted()) == ()


def test_breaks_are_chosen_by_table_type_and_text_of_their_key(store: PlatformStore, breaks: PlatformBreaks) -> None:
    keys = ("Ab_1", "ab%1", "abc1", "b!1")
    compared = saved(
        store,
        "r1",
        verdict("account", *(one("account", key) for key in keys)),
        verdict("payment", one("payment", "ab_9", BreakType.MISSING)),
    )
    for wanted, found in (
        (Wanted(text="B_"), ["Ab_1", "ab_9"]),
        (Wanted(text="b%"), ["ab%1"]),
        (Wanted(text="!"), ["b!1"]),
        (Wanted(table="payment"), ["ab_9"]),
        (Wanted(table="nothing"), []),
        (Wanted(type=BreakType.VALUE, text="ab", order=Order.KEY), ["Ab_1", "ab%1", "abc1"]),
        (Wanted(table="account", type=BreakType.MISSING), []),
    ):
        assert [each.found.key for each in breaks.some(compared, wanted)] == found, wanted
    assert breaks.counts(compared) == (Count("account", BreakType.VALUE, 4), Count("payment", BreakType.MISSING, 1))


def test_a_page_of_many_breaks_is_read_by_an_index_and_never_sorted(store: PlatformStore, server: Server) -> None:
    saved(store, "r1", verdict("account", one("account", "first")), verdict("payment", one("payment", "p")))
    with server.open() as session:
        ((number,),) = session.execute("select reconciliation_id from reconciliation").fetchall()
        session.execute(
            "insert into break select reconciliation_id, table_ordinal, n, table_name, type, n::text, source_values,"
            " destination_values, md5(n::text) from break, generate_series(1, %s) n where key = 'first'",
            (MANY,),
        )
        session.execute("analyze break")
        after = selected(session, number, Wanted(limit=100))[-1]
        for wanted, index in (
            (Wanted(), "break_pkey"),
            (Wanted(table="account"), "break_pkey"),
            (Wanted(order=Order.KEY), "break_by_key"),
            (Wanted(order=Order.KEY, type=BreakType.VALUE, text="7"), "break_by_key"),
            (Wanted(order=Order.TYPE), "break_by_type"),
            (Wanted(type=BreakType.MISSING), "break_by_type"),
        ):
            for behind in (None, after):
                plan = explained(session, number, replace(wanted, after=behind))
                assert f"using {index} " in plan and "Sort" not in plan, f"{wanted}\n{plan}"
        # The check sees what it is there for: an order that no index has.
        with session.transaction(force_rollback=True):
            session.execute("drop index break_by_key")
            assert "Sort" in explained(session, number, Wanted(order=Order.KEY))


def selected(session: Session, number: int, wanted: Wanted) -> list[Place]:
    statement, arguments = selection(session, number, wanted)
    cursor = session.execute(statement.replace("*", "table_ordinal, ordinal", 1).encode(), arguments)
    return [Place(*row) for row in cursor]


def explained(session: Session, number: int, wanted: Wanted) -> str:
    statement, arguments = selection(session, number, wanted)
    return "\n".join(line for (line,) in session.execute(f"explain {statement}".encode(), arguments))


def test_amounts_of_breaks_are_summed_per_group_where_they_or_what_stands_beside_them_says_it(
    store: PlatformStore, breaks: PlatformBreaks
) -> None:
    missing, unexpected, value = BreakType.MISSING, BreakType.UNEXPECTED, BreakType.VALUE
    found = (
        Break("account", missing, "1", {"amount": "10.25", "currency": "EUR"}, None),
        Break("account", missing, "2", {"amount": "-4.00", "currency": "EUR"}, None),
        Break("account", unexpected, "3", None, {"amount": "1", "currency": "USD"}),
        Break("account", value, "4", {"amount": "1.00"}, {"amount": "1.01"}),
        Break("account", value, "5", {"amount": "1.00"}, {"amount": "not a number"}),
        Break("account", value, "6", {"owner": "a"}, {"owner": "b"}),
        Break("account", value, "7", {"amount": None}, {"amount": "2"}),
        Break("account", value, "8", {"amount": "3"}, {"amount": "5"}, beside={"currency": "EUR"}),
        Break("account", value, "9", {"amount": "5"}, {"amount": "3"}, beside={"currency": "EUR"}),
        Break("account", value, "10", {"currency": "EUR"}, {"currency": "USD"}, beside={"amount": "100"}),
    )
    compared = saved(store, "r1", verdict("account", *found), verdict("other", one("other", "1", amount=("9", "0"))))
    assert breaks.amounts(compared, [Money("account", "amount", ("currency",))]) == (
        Amount("account", missing, "amount", ("EUR",), 2, Decimal("-6.25"), Decimal("14.25")),
        Amount("account", unexpected, "amount", ("USD",), 1, Decimal("1"), Decimal("1")),
        # What one row has too much another one lacks, and nothing is left of both in the totals.
        Amount("account", value, "amount", ("EUR",), 3, Decimal("-100"), Decimal("104")),
        Amount("account", value, "amount", ("USD",), 1, Decimal("100"), Decimal("100")),
        Amount("account", value, "amount", None, 3, Decimal("1.01"), Decimal("3.01")),
    )
    (alone,) = breaks.amounts(compared, [Money("other", "amount")])
    assert (alone.group, alone.net) == ((), Decimal("-9"))
    assert breaks.amounts(compared, [Money("nothing", "amount"), Money("account", "nothing")]) == ()


def test_amounts_at_risk_are_those_that_a_break_is_judged_by_also_where_a_value_is_null(
    store: PlatformStore, breaks: PlatformBreaks
) -> None:
    """A row that had lost its currency was in no amount: the sums took the currency of the other side."""
    columns = ("unit", "currency")
    for number, (mine, theirs, beside) in enumerate(
        [
            ({"currency": "EUR"}, {"currency": None}, {"amount": "100", "unit": "a"}),
            ({"amount": "1000000"}, {"amount": None}, {"currency": "EUR", "unit": "a"}),
            ({"amount": None, "currency": None}, {"amount": "5", "currency": "EUR"}, {"unit": "a"}),
            ({"unit": "a"}, {"unit": "b"}, {"amount": "7", "currency": None}),
            ({"currency": None}, {"currency": "EUR"}, {"amount": None, "unit": "a"}),
            ({"amount": "3", "currency": None, "unit": "a"}, None, None),
            ({"amount": "3", "currency": "EUR", "unit": "a"}, None, None),
            ({"amount": "5"}, {"amount": "7"}, None),
        ]
    ):
        found = Break("account", BreakType.VALUE, "1", mine, theirs, beside=beside)
        compared = saved(store, f"r{number}", verdict("account", found), days=number)
        summed = [(one.group, one.gross) for one in breaks.amounts(compared, [Money("account", "amount", columns)])]
        judged = [(one.group, one.amount) for one in differs(found, [("amount", columns)])]
        # Two groups that are not known are two lines, as they are two of a break.
        assert sorted(summed, key=str) == sorted(judged, key=str), found


def test_a_break_is_followed_over_dates_by_its_identity(store: PlatformStore, breaks: PlatformBreaks) -> None:
    stays = one("account", "stays")
    for days, keys in enumerate((["stays", "goes"], ["goes"], ["stays", "comes"])):
        saved(store, f"r{days}", verdict("account", *(one("account", key) for key in keys)), days=days)
    store.save_reconciliation(
        replace(
            reconciliation(), run_id="live", scope=Scope.LIVE, tables=(verdict("account", stays),), started_at=AT,
            ended_at=AT + timedelta(days=9),
        )
    )  # fmt: skip
    newest, before = Compared("r2", "warehouse"), Compared("r1", "warehouse")
    changes = breaks.changes(newest, before)
    assert [each.found.key for each in changes.first_new] == ["stays", "comes"]
    assert [each.found.key for each in changes.first_gone] == ["goes"]
    assert (changes.new, changes.gone) == (2, 1)
    first, second = breaks.some(newest, Wanted())
    identity = first.break_id
    assert (first.first_date, second.first_date) == (DAY, DAY + timedelta(days=2))
    history = breaks.history("settlement", identity)
    assert [(each.run_id, each.scope) for each in history] == [
        ("live", Scope.LIVE),
        ("r2", Scope.CUT),
        ("r0", Scope.CUT),
    ]
    assert {each.found.key for each in history} == {"stays"}
    assert breaks.history("another", identity) == ()


def test_breaks_that_an_older_version_has_kept_get_their_identity(empty: Server) -> None:
    migrate.upgrade(empty.open, to="v0008")
    kept = [Break("账户", BreakType.VALUE, json.dumps({"id": '😀"\\\n'}, ensure_ascii=False)), one("a", "x" * 9000)]
    with empty.open() as session:
        whole: Reconciliation = reconciliation()
        session.execute(
            "insert into reconciliation (run_id, sync, destination, scope, mode, verdict, started_at, ended_at,"
            " evidence) values ('r', %s, %s, 'cut', '', 'BREAK', now(), now(), '{}')",
            (whole.sync, whole.destination),
        )
        session.execute(
            "insert into table_verdict select reconciliation_id, 0, 'a', 'BREAK', '', '', 1, 1, 2 from reconciliation"
        )
        for ordinal, found in enumerate(kept):
            session.execute(
                "insert into break select reconciliation_id, 0, %s, %s, %s, %s from reconciliation",
                (ordinal, found.table, found.type.value, found.key),
            )
    migrate.upgrade(empty.open)
    with empty.open() as session:
        filled = [row[0] for row in session.execute("select break_id from break order by ordinal")]
    assert filled == [plain_id(whole.sync, whole.destination, found) for found in kept]
    # A later comparison finds one of them again, and another one.
    table = TableVerdict("a", Verdict.BREAK, breaks=(kept[0], new := one("a", "new")), breaks_total=2)
    with closing(PlatformStore(Database(empty.open))) as store:
        store.save_reconciliation(replace(whole, run_id="later", tables=(table,)))
        found = store.reconciliation("later", "cut")
        assert found is not None and found.tables == (table,)
        again, other = identities(found)
        assert again == filled[0] and other != plain_id(whole.sync, whole.destination, new)
        # As when a signature is kept: what was read is stored once more.
        store.save_reconciliation(found)
        assert (kept_now := store.reconciliation("later", "cut")) and identities(kept_now) == [again, other]


def test_what_the_log_says_of_a_break_is_kept_with_it(store: PlatformStore, breaks: PlatformBreaks) -> None:
    witness = Witness(Moved.DESTINATION, "the log explains no change of this row", 2, (Mention("update", "0-1-9", AT),))
    found = [replace(one("account", "a"), witness=witness), one("account", "b")]
    compared = saved(store, "r1", verdict("account", *found))
    kept = store.reconciliation("r1", "cut")
    assert kept is not None and [each.witness for each in kept.tables[0].breaks] == [witness, None]
    assert [each.found.witness for each in breaks.some(compared, Wanted())] == [witness, None]


def test_the_newest_match_replaces_what_was_kept_and_a_break_is_noted(server: Server) -> None:
    at = BinlogPosition("0-1-7", "bin.000001", 7)
    stream = StreamId("settlement", "warehouse")
    ledger = LedgerRow(stream, "log", "topic-1", 12, at, 3, 0, 1_772_000_000_000)
    digests = (SegmentDigest(2**40, 2**40, 2**75 + 1, 2**70), SegmentDigest())
    first = Baseline("account", "made of", ledger, Buckets.of_edges([-5]), digests, (1, 2),
                     {1: Looked("0-1-6", AT), 2: Looked("0-1-7", AT)})  # fmt: skip
    with closing(PlatformBaselines(Database(server.open))) as baselines:
        assert baselines.read(stream).baselines == {}
        baselines.keep(stream, [first, replace(first, table="payment", buckets=Buckets(2))], [])
        baselines.keep(stream, [], ["account", "unknown"])
        kept = baselines.read(stream)
        assert kept.baselines == {"account": first, "payment": replace(first, table="payment", buckets=Buckets(2))}
        assert kept.broken == {"account"}
        newer = replace(first, ledger=replace(ledger, next_offset=99), digests=digests[::-1])
        baselines.keep(stream, [newer], [])
        again = baselines.read(stream)
        assert (again.baselines["account"], again.broken) == (newer, frozenset())
        assert again.run_key == kept.run_key and len(again.run_key) == 32
        assert baselines.read(StreamId("settlement", "archive")).baselines == {}
        assert baselines.read(StreamId("other", "warehouse")).run_key != kept.run_key
