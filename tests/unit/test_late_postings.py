"""Late postings: which changes of a log are of a signed date and not in its cut, and that none is lost or counted twice
however often the log is looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.calendar import date_of
from seamline.domain.errors import Refused, TransientError
from seamline.domain.late_posting import LateInTable, LatePosting, LogPlace, StreamWatch, WatchedTake
from seamline.domain.ledger import StreamId
from seamline.plan.model import BusinessDate, NightlyPlan, SyncPlan
from seamline.ports.log_images import Texts
from seamline.sync.late_postings import LateTools, LateWatch, Seen, SignedVersions, Watched, late_postings, look
from seamline.sync.log_between import LoggedChange, Operation
from seamline.values.image_texts import ImageTexts
from tests.log_topic import (
    ACCOUNT,
    STREAM,
    TOPIC_ID,
    TRANSFER,
    LogTopic,
    TopicReader,
    delete,
    insert,
    position,
    sync_plan,
    update,
)
from tests.opened_sink import decoder_of
from tests.waiting import wait_until

SIGNED, OTHER = "2026-03-01", "2026-03-02"


def dated() -> SyncPlan:
    """A plan in which the name of an account is its business date."""
    plan = replace(sync_plan(), nightly=NightlyPlan(timezone="UTC"))
    by_name = BusinessDate("name", "date")
    tables = (replace(one, business_date=by_name if one.name == "account" else None) for one in plan.tables)
    return replace(plan, tables=tuple(tables))


def place(log: LogTopic) -> LogPlace:
    """Where a ledger stands that has applied all of it."""
    return LogPlace(TOPIC_ID, log.records[-1].offset + 1 if log.records else 0, position(log.transactions))


def take(log: LogTopic, *, cut_at: int | None = None, **other: Any) -> WatchedTake:
    fields = {"run_id": "r1", "business_date": SIGNED, "place": place(log), "is_begun": False, "version": 1, **other}
    return WatchedTake(cut_position=position(log.transactions if cut_at is None else cut_at), **fields)


class Kept:
    """What the platform database would keep."""

    def __init__(self) -> None:
        self.found: list[LatePosting] = []
        self.places: dict[str, LogPlace] = {}
        self.unknown: dict[str, str] = {}
        self.is_away = False

    def keep(
        self,
        stream: StreamId,
        takes: Sequence[WatchedTake],
        *,
        now: LogPlace,
        found: Sequence[LatePosting],
        unknown: Mapping[str, str],
    ) -> None:
        if self.is_away:
            raise TransientError("away")
        self.found += found
        self.places |= {one.run_id: now for one in takes}
        self.unknown |= unknown


def no_rows(*_: Any) -> Mapping[str, Any]:
    raise AssertionError("this log has every deleted row whole")


def looked(log: LogTopic, *takes: WatchedTake, kept: Kept | None = None, topic_id: str = TOPIC_ID) -> Kept:
    kept = kept or Kept()
    tools = LateTools(kept, lambda _: TopicReader(log), lambda *_: ImageTexts(decoder_of(dated())), no_rows)
    look(Watched(STREAM, dated(), replace(place(log), topic_id=topic_id), takes), tools)
    return kept


def account(number: int, day: str) -> dict[str, Any]:
    return {"id": number, "name": day}


def test_a_change_of_a_row_that_is_or_was_of_a_signed_date_is_late_and_no_other_is() -> None:
    log = LogTopic()
    watched = take(log)
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)), insert(ACCOUNT, **account(2, SIGNED)))
    log.transaction(insert(ACCOUNT, **account(3, OTHER)), insert(TRANSFER, tx=7, leg=1, amount="1.5000"))
    log.transaction(update(ACCOUNT, account(1, SIGNED), account(1, OTHER)))
    log.transaction(update(ACCOUNT, account(3, OTHER), account(3, SIGNED)))
    log.transaction(delete(ACCOUNT, **account(2, SIGNED)))

    kept = looked(log, watched)

    assert [(one.table, one.key, one.rows) for one in kept.found] == [
        ("account", '{"id": "1"}', 2),
        ("account", '{"id": "1"}', 1),
        ("account", '{"id": "3"}', 1),
        ("account", '{"id": "2"}', 1),
    ]
    assert [one.position for one in kept.found] == [f"0-1-{n} mdb-bin.000001:{n}000" for n in (1, 3, 4, 5)]
    assert {one.run_id for one in kept.found} == {"r1"}
    assert kept.found[0].committed_at is not None
    assert kept.found[0].committed_at.timestamp() == 1.001
    assert (kept.places, kept.unknown) == ({"r1": place(log)}, {})


def test_of_very_many_transactions_some_stand_by_themselves_and_the_others_as_one() -> None:
    log = LogTopic()
    watched = take(log)
    for number in range(1, 101):
        log.transaction(insert(ACCOUNT, **account(number, SIGNED)), insert(ACCOUNT, **account(-number, SIGNED)))
    found = looked(log, watched).found
    assert [(one.transactions, one.rows) for one in found] == [*[(1, 2)] * 19, (81, 162)]
    assert (found[-1].key, found[-1].position) == ('{"id": "20"}', "0-1-100 mdb-bin.000001:100000")


def test_the_thread_goes_on_after_trouble_with_one_stream_and_after_our_own_mistakes() -> None:
    log, kept, asked = LogTopic(), Kept(), list[int]()
    one = Watched(STREAM, dated(), place(log), (take(log),))
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))

    def watched() -> list[Watched]:
        asked.append(1)
        if len(asked) == 1:
            raise ValueError("a mistake of ours")
        now = replace(one, now=place(log))
        return [replace(now, plan=replace(dated(), source=replace(dated().source, name="away"))), now]

    def open_reader(plan: SyncPlan) -> TopicReader:
        if plan.source.name == "away":
            raise TransientError("it does not answer")
        return TopicReader(log)

    watch = LateWatch(
        watched, LateTools(kept, open_reader, lambda *_: ImageTexts(decoder_of(dated())), no_rows), every_s=0.001
    )
    watch.start()
    try:
        wait_until(lambda: kept.found, timeout_s=20, what="the second stream to be looked at")
    finally:
        watch.close()
    assert kept.found[0].key == '{"id": "1"}'


def test_what_is_in_the_cut_is_not_late() -> None:
    log = LogTopic()
    watched = take(log, cut_at=1)
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))
    log.transaction(insert(ACCOUNT, **account(2, SIGNED)))
    assert [one.key for one in looked(log, watched).found] == ['{"id": "2"}']


def test_a_look_that_is_repeated_goes_on_where_the_last_one_was_kept() -> None:
    log, kept = LogTopic(), Kept()
    watched = take(log)
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))
    kept.is_away = True
    with pytest.raises(TransientError):
        looked(log, watched, kept=kept)
    kept.is_away = False
    looked(log, watched, kept=kept)
    again = replace(watched, place=kept.places["r1"], is_begun=True)
    looked(log, again, kept=kept)
    log.transaction(insert(ACCOUNT, **account(2, SIGNED)))
    looked(log, again, kept=kept)
    assert [one.key for one in kept.found] == ['{"id": "1"}', '{"id": "2"}']


def test_a_date_that_was_signed_later_is_looked_for_from_its_own_place() -> None:
    log = LogTopic()
    early = take(log)
    log.transaction(insert(ACCOUNT, **account(1, OTHER)))
    late = take(log, run_id="r2", business_date=OTHER)
    log.transaction(insert(ACCOUNT, **account(2, OTHER)), insert(ACCOUNT, **account(3, SIGNED)))
    kept = looked(log, early, late)
    assert sorted((one.run_id, one.key) for one in kept.found) == [("r1", '{"id": "3"}'), ("r2", '{"id": "2"}')]


def test_an_emptied_table_is_late_for_every_signed_date() -> None:
    log = LogTopic()
    takes = take(log), take(log, run_id="r2", business_date=OTHER)
    log.truncate("account")
    log.transaction(insert(TRANSFER, tx=7, leg=1, amount="1.5000"))
    assert [(one.run_id, one.key, one.rows) for one in looked(log, *takes).found] == [("r1", "", 1), ("r2", "", 1)]


def test_what_cannot_be_looked_at_is_said_and_the_watch_goes_on_behind_it() -> None:
    log = LogTopic()
    watched = take(log)
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))
    kept = looked(log, watched, topic_id="made again")
    assert "created again" in kept.unknown["r1"]
    assert (kept.found, kept.places["r1"].topic_id) == ([], "made again")


def gone(number: int, *, at: int) -> LoggedChange:
    """A delete of which the log has the key alone."""
    return LoggedChange("account", str(number), Operation.DELETE, position(at), 1_000 * at, is_before_known=False)


def moved(number: int, day: str, *, at: int) -> LoggedChange:
    """An update of which the log has what the row became alone."""
    became = {"id": str(number), "name": day}
    return replace(gone(number, at=at), operation=Operation.UPDATE, after=became)


TABLES, DATES = {"account": ACCOUNT}, {"account": BusinessDate("name", "date")}


def test_a_row_whose_former_values_the_log_lacks_is_late_where_a_signed_version_has_it() -> None:
    asked: list[tuple[str, list[str]]] = []

    def rows(_plan: SyncPlan, _to: str, one: WatchedTake, _table: str, keys: Sequence[str]) -> Mapping[str, Texts]:
        asked.append((one.run_id, list(keys)))
        held = {"r1": {"1": SIGNED, "4": SIGNED, "5": SIGNED, "9": SIGNED}, "r2": {"2": OTHER}}[one.run_id]
        return {key: {"id": key, "name": held[key]} for key in keys if key in held}

    log = LogTopic()
    takes = [take(log, cut_at=3), take(log, cut_at=5, run_id="r2", business_date=OTHER)]
    signed = SignedVersions(dated(), "warehouse", takes, rows)
    changes = [
        gone(9, at=2),
        gone(1, at=4),
        gone(2, at=6),
        gone(3, at=6),
        moved(4, "2026-03-09", at=7),  # out of a signed date, into one that is not
        moved(4, "2026-03-09", at=7),
        moved(5, SIGNED, at=8),  # another column
        moved(6, "2026-03-09", at=9),  # of a date that nobody has signed
    ]
    found = late_postings(signed.with_rows(changes), TABLES, DATES, takes, nightly=NightlyPlan(timezone="UTC"))

    # Version r1 sees the delete of 9, so its rows are without it.
    assert asked == [("r1", ["1", "2", "3", "4", "5", "6"]), ("r2", ["2", "3", "4", "5", "6"])]
    assert [(one.run_id, one.key, one.rows, one.position) for one in found] == [
        ("r1", '{"id": "1"}', 1, str(position(4))),
        ("r1", '{"id": "4"}', 2, str(position(7))),
        ("r1", '{"id": "5"}', 1, str(position(8))),
        ("r2", '{"id": "2"}', 1, str(position(6))),
    ]
    assert signed.unknown == {}


def test_rows_of_the_closed_days_before_a_signed_date_are_late_for_it() -> None:
    """The cut of Monday holds Saturday to Monday, so a row of Saturday is late for Monday."""
    weekdays = BusinessDates((Calendar("cn_bank", date(2026, 1, 1), date(2026, 12, 31)),))
    nightly = NightlyPlan(timezone="UTC", dates=weekdays)
    log = LogTopic()
    takes = [take(log, run_id="friday", business_date="2026-02-27"), take(log, run_id="monday", business_date=OTHER)]
    days = ("2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03")
    changes = [
        LoggedChange("account", str(at), Operation.INSERT, position(at), 1_000 * at, after=account(at, day))
        for at, day in enumerate(days, start=1)
    ]
    found = late_postings([Seen(one) for one in changes], TABLES, DATES, takes, nightly=nightly)
    assert [(one.run_id, one.business_date, one.key) for one in found] == [
        ("friday", "2026-02-27", '{"id": 2}'),
        ("monday", OTHER, '{"id": 3}'),
        ("monday", OTHER, '{"id": 4}'),
        ("monday", OTHER, '{"id": 5}'),
    ]


def test_nobody_is_asked_for_updates_of_a_table_whose_key_has_the_date() -> None:
    log, plan = LogTopic(), dated()
    tables = (replace(one, business_date=BusinessDate("id", "date")) for one in plan.tables if one.name == "account")
    signed = SignedVersions(replace(plan, tables=tuple(tables)), "warehouse", [take(log)], no_rows)
    change = moved(1, OTHER, at=6)
    assert [(one.change, one.held) for one in signed.with_rows([change])] == [(change, ())]


def test_a_version_that_cannot_be_asked_for_former_rows_says_so_and_the_other_changes_count() -> None:
    def rows(*_: Any) -> Mapping[str, Texts]:
        raise Refused("version 1 is not kept any more")

    log = LogTopic()
    takes = [take(log)]
    signed = SignedVersions(dated(), "warehouse", takes, rows)
    other = LoggedChange("account", "4", Operation.INSERT, position(6), 6_000, after=account(4, SIGNED))
    changes = [gone(1, at=4), moved(2, OTHER, at=5), other]
    found = late_postings(signed.with_rows(changes), TABLES, DATES, takes, nightly=NightlyPlan(timezone="UTC"))
    assert [one.position for one in found] == [str(position(6))]
    assert signed.unknown == {
        "r1": f"whether rows of account that were changed or deleted up to {position(5)} were of the date: version 1 is"
        " not kept any more"
    }


def test_a_watch_that_began_behind_the_cut_says_so() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))
    watched = take(log, cut_at=0)
    log.transaction(insert(ACCOUNT, **account(2, SIGNED)))
    kept = looked(log, watched)
    assert [one.key for one in kept.found] == ['{"id": "2"}']
    assert kept.unknown["r1"].startswith("the watch began behind the cut's position")
    assert looked(log, replace(watched, is_begun=True)).unknown == {}


def test_the_ledger_of_a_destination_that_was_put_back_is_waited_for() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, **account(1, SIGNED)))
    ahead = replace(place(log), next_offset=1_000)
    assert looked(log, take(log, place=ahead)).places == {}


@pytest.mark.parametrize(
    ("text", "holds", "day"),
    [
        ("2026-03-01", "date", date(2026, 3, 1)),
        # 2026-02-28 16:30 in UTC.
        ("1772296200000000", "instant", date(2026, 3, 1)),
        ("1772296200000000", "local", date(2026, 2, 28)),
        ("1772296200000000", "date", date(2026, 2, 28)),
        ("infinity", "date", None),
        ("0044-03-15 BC", "date", None),
        ("9" * 25, "instant", None),
    ],
)
def test_the_date_of_a_row_is_read_from_the_text_of_its_column(text: str, holds: str, day: date | None) -> None:
    assert date_of(text, holds=holds, timezone="Asia/Shanghai") == day


def test_a_watch_says_what_came_and_how_far_it_looked() -> None:
    watch = StreamWatch((LateInTable("account", 1_200, 3, None), LateInTable("transfer", 1, 1, None)))
    assert watch.in_words == (
        "late postings since its cut: 1,201; account: 1,200 in 3 transactions; transfer: 1 in 1 transactions"
    )
    assert StreamWatch().in_words == ""
    assert "not looked at" in StreamWatch().looked_in_words()
