"""Work on breaks in a real PostgreSQL: what people do about them, what comparisons do, and that the log has both."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.audit import Entry, canonical_json, sha256_of
from seamline.domain.break_age import DAYS, Aged, AgedAmount
from seamline.domain.break_work import NAMED_MAX, Doing, Order, WorkState
from seamline.domain.errors import Refused
from seamline.domain.runs import Scope
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import BusinessDate, TablePlan
from seamline.platform import migrate
from seamline.platform.audit_check import check
from seamline.platform.breaks import Compared, InCuts, Money, PlatformBreaks, Wanted
from seamline.platform.database import Database
from seamline.platform.store import PlatformStore
from seamline.platform.work import Done, PlatformWork
from tests.integration.platform_database import Server, database_of_its_own, know_secret, plan, stored_id
from tests.integration.test_audit import logged
from tests.integration.test_platform import reconciliation

DAY = date(2026, 3, 1)
AT = datetime(2026, 3, 2, tzinfo=UTC)
OPEN, EXPLAINED, CLOSED = WorkState.OPEN, WorkState.EXPLAINED, WorkState.CLOSED
MANY = 5_000


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    with database_of_its_own("work_test_migrated") as server:
        migrate.upgrade(server.open)
        know_secret(server)
        yield server


@pytest.fixture
def server(template: Server) -> Iterator[Server]:
    """Its own for each test: nothing can empty the log of acts."""
    made = Server("work_test")
    made.admin("drop database if exists work_test with (force)")
    made.admin(f"create database work_test template {template.name}")
    yield made
    made.admin("drop database if exists work_test with (force)")


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as opened:
        yield opened


@pytest.fixture
def work(server: Server) -> Iterator[PlatformWork]:
    with closing(PlatformWork(Database(server.open))) as opened:
        yield opened


def value(key: str, table: str = "account", to: str = "2") -> Break:
    return Break(table, BreakType.VALUE, key, {"balance": "1"}, {"balance": to})


def named(key: str, table: str = "account") -> str:
    return stored_id(value(key, table))


def saved(store: PlatformStore, days: int, *found: Break, hidden: int = 0, **fields: Any) -> Compared:
    """The cut of a date, so many days after the first, of `account`, read whole, and `payment`, read by its date.
    `hidden`: breaks of `account` that were found and not listed."""
    day, at, run_id = DAY + timedelta(days=days), AT + timedelta(days=days), f"r{days}"
    tables = tuple(
        TableVerdict(
            name,
            Verdict.BREAK if mine or (hidden and name == "account") else Verdict.MATCH,
            breaks=mine,
            breaks_total=len(mine) + (hidden if name == "account" else 0),
        )
        for name in ("account", "payment")
        if (mine := tuple(one for one in found if one.table == name)) is not None
    )
    made = replace(
        reconciliation(), run_id=run_id, business_date=day, tables=tables, started_at=at, ended_at=at, **fields
    )
    of_run = replace(plan(), tables=(TablePlan("account"), TablePlan("payment", BusinessDate("booked_on", "date"))))
    store.start_run(
        run_id=made.run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(of_run), business_date=day
    )
    store.save_reconciliation(made)
    return Compared(made.run_id, made.destination, Scope(made.scope))


def order(doing: Doing, who: str = "ann", **fields: str) -> Order:
    return Order(doing, who, **fields)


def state(work: PlatformWork, key: str, table: str = "account") -> WorkState:
    name = named(key, table)
    return work.of([name])[name].state


def entries(server: Server) -> list[Entry]:
    return [one for one in logged(server) if one.kind not in ("log opened", "compared")]


def test_an_act_changes_the_break_and_is_an_entry_of_the_log_with_who_when_and_from_where(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    saved(store, 0, value("1"), value("2"))
    one = named("1")
    for made in (
        order(Doing.ASSIGN, owner="bo"),
        order(Doing.COMMENT, who="bo", comment="it is booked tomorrow"),
        order(Doing.EXPLAIN, who="bo", reason="timing"),
        order(Doing.HAND_BACK, who="bo"),
    ):
        assert work.act("settlement", one, made) == Done(1)
    known = work.of([one])[one]
    assert (known.state, known.owner, known.reason, known.in_cut) == (EXPLAINED, "", "timing", "r0")
    assert [(each.kind, each.who, each.origin, each.subject.run_id) for each in entries(server)] == [
        ("assigned", "ann", "page", "r0"),
        ("commented", "bo", "page", "r0"),
        ("explained", "bo", "page", "r0"),
        ("handed back", "bo", "page", "r0"),
    ]
    documents = [json.loads(each.document) for each in entries(server)]
    assert documents[0] == {
        "breaks": 1, "breaks_hash": sha256_of(canonical_json([one])), "break_ids": [one], "owner": "bo",
    }  # fmt: skip
    assert documents[2]["state"] == "explained"
    newest, *_, oldest = work.deeds(one)
    assert (newest.kind, oldest.kind, oldest.owner) == ("handed back", "assigned", "bo")
    assert work.deeds(named("2")) == ()
    with server.open() as session:
        faults: list[str] = []
        check(session, sync="", anchors=(), report=faults.append)
    assert faults == []


def test_an_act_that_the_state_does_not_allow_is_refused_and_leaves_no_entry(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    saved(store, 0, value("1"))
    for name, made, said in (
        (named("1"), order(Doing.CLOSE, comment="done"), "while the break is open"),
        (named("1"), order(Doing.REOPEN, comment="no"), "while the break is open"),
        ("0" * 16, order(Doing.COMMENT, comment="x"), "has no break"),
    ):
        with pytest.raises(Refused, match=said):
            work.act("settlement", name, made)
    with pytest.raises(Refused, match="has no break"):
        work.act("another", named("1"), order(Doing.COMMENT, comment="x"))
    assert entries(server) == []
    assert state(work, "1") is OPEN


def test_a_break_that_the_next_comparison_has_no_more_closes_itself_and_one_that_is_back_is_open_with_its_history(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    saved(store, 0, value("1"), value("2"))
    work.act("settlement", named("1"), order(Doing.ASSIGN, owner="bo"))
    saved(store, 1, value("2"))
    assert (state(work, "1"), state(work, "2")) == (CLOSED, OPEN)
    saved(store, 2, value("1"), value("2"))
    name = named("1")
    known = work.of([name])[name]
    assert (known.state, known.owner, known.first_at, known.first_date) == (OPEN, "bo", AT, DAY)
    done = [(each.kind, each.who, each.run_id, each.comment) for each in work.deeds(name)]
    assert done == [
        ("break opened again", "comparison", "r2", "found again"),
        ("break closed", "comparison", "r1", "the comparison has it no more"),
        ("assigned", "ann", "r0", ""),
    ]
    assert [each.kind for each in work.deeds(named("2"))] == []


def test_no_break_closes_itself_by_a_comparison_that_has_not_looked_for_it(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    saved(store, 0, value("1"), value("p", "payment"))
    # The next date's cut holds only its own payments, and of accounts more is wrong than is listed.
    saved(store, 1, value("2"), hidden=5)
    assert (state(work, "1"), state(work, "p", "payment")) == (OPEN, OPEN)
    with closing(PlatformBreaks(Database(server.open))) as breaks:
        assert breaks.in_cuts("settlement", named("p", "payment")) == InCuts(DAY, DAY, 1, is_standing=True)
    inconclusive = replace(TableVerdict("account", Verdict.INCONCLUSIVE, reason="the source was away"))
    made = replace(reconciliation(), run_id="r8", tables=(inconclusive,), ended_at=AT + timedelta(days=8))
    store.save_reconciliation(made)
    assert state(work, "1") is OPEN
    # Another take of its own date does look.
    again = replace(
        reconciliation(), run_id="r0", business_date=DAY, ended_at=AT + timedelta(days=9),
        tables=(TableVerdict("account", Verdict.MATCH), TableVerdict("payment", Verdict.MATCH)),
    )  # fmt: skip
    store.save_reconciliation(again)
    assert (state(work, "1"), state(work, "p", "payment")) == (CLOSED, CLOSED)
    with closing(PlatformBreaks(Database(server.open))) as breaks:
        # That take has replaced the one that had it: the work knows of it still.
        assert breaks.in_cuts("settlement", named("p", "payment")) is None
        assert breaks.in_cuts("settlement", named("2")) == InCuts(*[DAY + timedelta(days=1)] * 2, 1, is_standing=False)


def test_a_break_of_cut_and_live_tables_closes_when_neither_has_it_and_an_older_comparison_says_nothing_new(
    store: PlatformStore, work: PlatformWork
) -> None:
    live = replace(
        reconciliation(), run_id="live", scope=Scope.LIVE, ended_at=AT + timedelta(hours=1),
        tables=(TableVerdict("account", Verdict.BREAK, breaks=(value("1"),), breaks_total=1),),
    )  # fmt: skip
    saved(store, 0, value("1"))
    store.save_reconciliation(live)
    saved(store, 1)
    assert state(work, "1") is OPEN
    gone = replace(live, run_id="live2", ended_at=AT + timedelta(days=2))
    store.save_reconciliation(replace(gone, tables=(TableVerdict("account", Verdict.MATCH),)))
    assert state(work, "1") is CLOSED
    # The same comparisons once more, as when one is signed.
    store.save_reconciliation(live)
    assert state(work, "1") is CLOSED


def test_what_was_explained_stays_so_while_its_values_do_and_what_was_closed_by_hand_opens_when_it_still_stands(
    store: PlatformStore, work: PlatformWork
) -> None:
    saved(store, 0, value("1"), value("2"))
    for key in "12":
        work.act("settlement", named(key), order(Doing.EXPLAIN, reason="timing"))
    work.act("settlement", named("2"), order(Doing.CLOSE, comment="booked"))
    assert (state(work, "1"), state(work, "2")) == (EXPLAINED, CLOSED)
    saved(store, 1, value("1"), value("2"))
    assert (state(work, "1"), state(work, "2")) == (EXPLAINED, OPEN)
    saved(store, 2, value("1", to="5000000"), value("2"))
    assert state(work, "1") is OPEN
    assert work.deeds(named("1"))[0].comment == "its values are others than those that were explained"


def test_an_act_on_a_filter_changes_all_pages_of_it_in_one_entry_and_leaves_alone_what_it_may_not(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    compared = saved(store, 0, *(value(f"k{number:04}") for number in range(300)), value("other", "payment"))
    work.act("settlement", named("k0001"), order(Doing.EXPLAIN, reason="timing"))
    assigned = order(Doing.ASSIGN, owner="bo")
    assert work.act_on_all("settlement", compared, Wanted(table="account", owner=""), assigned) == Done(300)
    with closing(PlatformBreaks(Database(server.open))) as breaks:
        for wanted, number in (
            (Wanted(owner="bo"), 300),
            (Wanted(owner=""), 1),
            (Wanted(state=EXPLAINED), 1),
            (Wanted(state=OPEN, owner="bo"), 299),
            (Wanted(owner="nobody"), 0),
        ):
            assert breaks.number(compared, wanted) == number, wanted
            assert len(breaks.some(compared, replace(wanted, limit=1_000))) == number
    assert work.states(compared) == {OPEN: 300, EXPLAINED: 1}
    assert work.owners(compared) == ("bo",)
    few = Wanted(text="k000")
    assert work.act_on_all("settlement", compared, few, order(Doing.CLOSE, comment="known")) == Done(1, 9)
    with pytest.raises(Refused, match="none of 0 breaks"):
        work.act_on_all("settlement", compared, Wanted(text="none"), assigned)
    _, many, one = entries(server)
    said = json.loads(many.document)
    assert (said["breaks"], said["filter"]) == (300, '{"table": "account", "owner": ""}')
    assert "break_ids" not in said and NAMED_MAX < 300
    assert said["breaks_hash"] == sha256_of(canonical_json(sorted(named(f"k{n:04}") for n in range(300))))
    assert json.loads(one.document)["break_ids"] == [named("k0001")]
    assert [each.kind for each in work.deeds(named("k0299"))] == ["assigned"]
    oldest = work.waiting(["settlement"], owner="bo")
    assert (len(oldest), {one.work.owner for one in oldest}, {one.found.table for one in oldest}) == (
        299, {"bo"}, {"account"},
    )  # fmt: skip
    assert [one.found.key for one in work.waiting(["settlement"]) if one.work.owner == ""] == ["other"]
    (mine,) = work.mine("bo", ["settlement"])
    assert (mine.table, mine.breaks, mine.oldest) == ("account", 299, AT)
    assert work.mine("bo", ["another"]) == ()


def test_breaks_of_an_older_comparison_are_explained_together_only_with_the_values_that_were_seen_there(
    store: PlatformStore, work: PlatformWork
) -> None:
    """The explanation counted for the values of the newest comparison, which nobody had seen."""
    older = saved(store, 0, value("a"), value("b"))
    saved(store, 1, value("a"), value("b", to="3"))
    assert work.act_on_all("settlement", older, Wanted(), order(Doing.EXPLAIN, reason="timing")) == Done(1, 1)
    assert (state(work, "a"), state(work, "b")) == (EXPLAINED, OPEN)


def test_an_act_on_many_breaks_is_one_entry_and_a_page_of_them_is_read_without_the_others(
    store: PlatformStore, work: PlatformWork, server: Server
) -> None:
    compared = saved(store, 0, value("first"))
    with server.open() as session:
        session.execute(
            "insert into break select reconciliation_id, table_ordinal, n, table_name, type, n::text, source_values,"
            " destination_values, substr(md5(n::text), 1, 16) from break, generate_series(1, %s) n",
            (MANY,),
        )
        session.execute(
            "insert into break_work (break_id, sync, destination, table_name, type, since, first_at, in_cut, cut_at)"
            " select substr(md5(n::text), 1, 16), sync, destination, table_name, type, since, first_at, in_cut, cut_at"
            " from break_work, generate_series(1, %s) n",
            (MANY,),
        )
        session.execute("analyze")
    explained = order(Doing.EXPLAIN, reason="timing")
    assert work.act_on_all("settlement", compared, Wanted(), explained) == Done(MANY + 1)
    (entry,) = entries(server)
    assert (entry.kind, json.loads(entry.document)["breaks"]) == ("explained", MANY + 1)
    assert len(entry.document) < 500
    assert work.states(compared) == {EXPLAINED: MANY + 1}
    with closing(PlatformBreaks(Database(server.open))) as breaks:
        assert len(breaks.some(compared, Wanted(state=EXPLAINED))) == 50


def test_breaks_stand_in_bands_of_age_with_their_amounts_and_those_of_earlier_dates_are_carried_forward(
    store: PlatformStore, work: PlatformWork
) -> None:
    def off(key: str, by: int, table: str = "account", *, beside: Any = None, **more: str) -> Break:
        sides = [{"balance": str(amount), **more} for amount in (100, 100 + by)]
        return Break(table, BreakType.VALUE, key, sides[0], sides[1], beside=beside)

    saved(store, 0, off("old", 7, currency="EUR"), off("p", 1, "payment"), off("q", 1, "payment"))
    saved(store, 2, off("old", 7, currency="EUR"), off("mid", -3, currency="USD"))
    newest = saved(
        store,
        6,
        off("old", 8, currency="EUR"),
        off("mid", -3, currency="USD"),
        off("new", 5, beside={"currency": "CNY"}),
    )
    explained = order(Doing.EXPLAIN, reason="timing")
    work.act("settlement", named("mid"), explained)
    work.act("settlement", named("q", "payment"), explained)
    work.act("settlement", named("q", "payment"), order(Doing.CLOSE, comment="corrected"))
    money = [Money("account", "balance", ("currency",)), Money("payment", "balance")]

    def amount(column: str, group: tuple[str, ...] | None, gross: int) -> AgedAmount:
        return AgedAmount(column, "balance", group, 1, Decimal(gross))

    assert work.ageing(newest, money, DAYS) == (
        Aged(0, 1, 1, 0, (amount("account", ("CNY",), 5),)),
        Aged(1, 1, 0, 0, (amount("account", ("USD",), 3),)),
        Aged(2, 2, 2, 1, (amount("account", ("EUR",), 8), amount("payment", (), 1))),
    )
    assert work.ageing(newest, (), (0, 3)) == (Aged(0, 1, 1, 0), Aged(2, 3, 2, 1))
    # They are 0, 4 and 6 days old: a band ends with its last day.
    assert work.ageing(newest, (), (4, 6)) == (Aged(0, 2, 1, 0), Aged(1, 2, 2, 1))
    assert work.ageing(newest, (), (3, 5)) == (Aged(0, 1, 1, 0), Aged(1, 1, 0, 0), Aged(2, 2, 2, 1))
    assert work.ageing(replace(newest, run_id="another"), money, DAYS) == ()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update break_work set state = 'explained' where state = 'open'", "changed to explained after it was found"),
        ("update break_work set state = 'open' where state = 'explained'", "changed to open after entry "),
        ("delete from break_act", "it leads to other breaks than it was about"),
        ("insert into break_act select 'ffffffffffffffff', max(number) from break_act", "it leads to other breaks"),
    ],
)
def test_a_state_that_no_act_has_made_and_an_act_without_its_breaks_are_named(
    store: PlatformStore, work: PlatformWork, server: Server, statement: str, said: str
) -> None:
    def faults(sync: str = "") -> list[str]:
        found: list[str] = []
        with server.open() as session:
            check(session, sync=sync, anchors=(), report=found.append)
        return found

    compared = saved(store, 0, value("1"), value("2"), value("3"))
    work.act("settlement", named("1"), order(Doing.EXPLAIN, reason="timing"))
    work.act_on_all("settlement", compared, Wanted(text="3"), order(Doing.ASSIGN, owner="bo"))
    saved(store, 1, value("1", to="9"), value("2"))
    saved(store, 2, value("1", to="9"), value("2"), value("3"))
    work.act("settlement", named("1"), order(Doing.EXPLAIN, reason="timing"))
    assert faults() == []
    with server.open() as session:
        session.execute(statement.encode())
    assert any(said in fault for fault in faults()), faults()
    assert faults("another") == []
