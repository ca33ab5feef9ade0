"""What is found in the log behind the end of a cut: transactions of its date, and how far they are looked for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from seamline.domain.errors import TransientError
from seamline.domain.log import Transaction
from seamline.domain.made_from import BY_LOG, NotByLog, by_log_from_json, by_log_in_words, by_log_to_json
from seamline.sync.log_cut import CutLogLimits, LogTools, _Behind, read_to_cut_off
from seamline.sync.markers import HEARTBEAT
from tests.log_topic import ManualClock, TopicReader, gtid
from tests.unit.test_log_cut import (
    ACCOUNT,
    DAYS,
    ENTRY,
    NOON,
    PLAN,
    VISIT,
    History,
    Night,
    end_of,
    listed_late,
    plain_history,
    read_at,
)


def with_a_clock_ahead(ahead: timedelta, late: Sequence[datetime]) -> History:
    """Transaction 3 says the cut-off of the second date, or later; behind it the date goes on."""
    history, row = History(), {"id": 1, "memo": "a"}
    history.commit(NOON - timedelta(days=1), (ACCOUNT, None, row))
    history.commit(NOON, (ACCOUNT, row, {"id": 1, "memo": "b"}))
    history.commit(end_of(DAYS[1]) + ahead, (VISIT, None, {"day": DAYS[1], "memo": "v"}))
    for number, at in enumerate(late, start=2):
        history.commit(at, (ENTRY, None, {"id": number, "day": DAYS[1], "memo": "behind it"}))
    history.commit(end_of(DAYS[1]) + timedelta(seconds=1))
    history.commit(end_of(DAYS[2]))
    return history


def test_later_transactions_that_say_to_be_earlier_are_listed() -> None:
    made = Night(plain_history()).read(read_at(plain_history(), 2, 1).base, DAYS[1]).made
    assert (made.transactions, made.changes) == (3, 5)
    assert (made.ended_by.split()[0], made.ended_at) == (gtid(6), "2026-03-06T00:00:00.000+00:00")
    (late,) = made.late
    assert (late.position.split()[0], late.committed, late.changes) == (gtid(7), "2026-03-05T23:59:59.000+00:00", 1)
    assert by_log_from_json(by_log_to_json(made)) == made
    assert made.in_words.startswith(
        "made by the log since the cut of 2026-03-04 (version 1, MATCH, read from the source)"
    )


AHEAD_BY = [timedelta(0), timedelta(minutes=5), timedelta(hours=1), timedelta(days=3)]


@pytest.mark.parametrize("ahead", AHEAD_BY)
def test_transactions_of_the_date_behind_its_end_are_listed_however_far_that_one_is_ahead(ahead: timedelta) -> None:
    history = with_a_clock_ahead(ahead, [NOON + timedelta(seconds=number) for number in range(5)])
    found = Night(history).read(read_at(history, 1, 1).base, DAYS[1])
    assert (found.made.transactions, found.made.late_total) == (1, 5)
    assert listed_late(found) == history.late_for(end_of(DAYS[1])) == [gtid(number) for number in range(4, 9)]
    (_, looked, late) = by_log_in_words({BY_LOG: by_log_to_json(found.made)})
    # The marker that was committed for the look.
    latest = max(end_of(DAYS[1]) + ahead, end_of(DAYS[-1]))
    assert f"up to commits of {latest.isoformat(timespec='milliseconds')}" in looked
    assert late.startswith("5 transactions behind it say")


@pytest.mark.parametrize("ahead", AHEAD_BY)
def test_a_date_of_which_hours_lie_behind_its_end_is_not_cut_there(ahead: timedelta) -> None:
    history = with_a_clock_ahead(ahead, [NOON + timedelta(hours=number) for number in range(5)])
    with pytest.raises(NotByLog, match=r"from 2026-03-05T12:00.* to 2026-03-05T16:00.*in 5 transactions"):
        Night(history).read(read_at(history, 1, 1).base, DAYS[1])


def test_a_look_into_the_log_that_brings_nothing_does_not_end_the_look_for_late_transactions() -> None:
    class Halting(TopicReader):
        polls = 0

        def poll(self, timeout_s: float, records_max: int) -> Any:
            self.polls += 1
            return () if self.polls % 2 else super().poll(timeout_s, records_max)

    history = with_a_clock_ahead(timedelta(0), [NOON])
    reader: Any = Halting(history.log, at_most=1)
    night = Night(history)
    tools = LogTools(lambda: reader, night.mark, night.clock)
    assert read_to_cut_off(PLAN, read_at(history, 1, 1).base, end_of(DAYS[1]), tools).made.late_total == 1


def beats(history: History, begin: datetime, *, minutes: float) -> None:
    """Heartbeats of a stream host, one each ten seconds."""
    for number in range(int(minutes * 6)):
        at = int((begin + timedelta(seconds=10 * number)).timestamp() * 1000)
        history.log.clock_ms = lambda at=at: at  # type: ignore[misc]
        history.log.marker(f"heartbeat-{begin:%H%M}-{number}", HEARTBEAT)


LONG_OVER = ManualClock((end_of(DAYS[-1]) + timedelta(days=3)).timestamp())


def test_of_a_date_that_is_long_over_an_hour_of_heartbeats_ends_the_look() -> None:
    history = with_a_clock_ahead(timedelta(0), [])
    beats(history, end_of(DAYS[2]), minutes=90)
    base = read_at(history, 1, 1).base
    night = Night(history, clock=LONG_OVER)
    made = night.read(base, DAYS[1]).made
    assert (made.late_total, made.look_ended_by, night.markers) == (0, "", 0)
    assert made.looked_until == moment_of(end_of(DAYS[2]) + timedelta(minutes=59, seconds=50))
    assert Night(history).read(base, DAYS[1]).made.look_ended_by == "the end of the log", "the cut of last night"


@pytest.mark.parametrize("ends_at", ["one that is late", "one that is not"])
def test_a_look_that_ends_at_the_first_transaction_behind_the_cut_is_caught(
    monkeypatch: pytest.MonkeyPatch, ends_at: str
) -> None:
    """The check of the random histories in `test_log_cut`, which such a look does not pass."""
    take = _Behind.take

    def take_and_end(self: _Behind, transaction: Transaction, **given: Any) -> None:
        take(self, transaction, **given)
        if (transaction.committed_ms < self.cut_off_ms) == (ends_at == "one that is late"):
            self.quiet_s = float("inf")

    history, late = with_a_clock_ahead(timedelta(0), [NOON, NOON + timedelta(seconds=1)]), end_of(DAYS[1])
    history.commit(late - timedelta(seconds=1), (VISIT, None, {"day": DAYS[1], "memo": "behind all"}))
    history.commit(late)
    night = Night(history, clock=LONG_OVER, limits=CutLogLimits(ahead_max_s=float("inf")))
    base = read_at(history, 1, 1).base
    assert listed_late(night.read(base, DAYS[1])) == history.late_for(late)
    monkeypatch.setattr(_Behind, "take", take_and_end)
    assert listed_late(night.read(base, DAYS[1])) != history.late_for(late)


def moment_of(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def postings_ahead(history: History, *, apart: timedelta, count: int = 62) -> None:
    for number in range(count):
        at = end_of(DAYS[1]) + (apart * number if apart < timedelta(minutes=2) else apart * (number % 2))
        history.commit(at, (VISIT, None, {"day": DAYS[2], "memo": f"v{number}"}))


def date_goes_on(history: History) -> None:
    for hour in range(1, 11):
        beats(history, NOON + timedelta(hours=hour), minutes=1)
        history.commit(NOON + timedelta(hours=hour), (ENTRY, None, {"id": hour, "day": DAYS[1], "memo": "lost"}))
    beats(history, end_of(DAYS[1]), minutes=1)


def begun() -> History:
    history, row = History(), {"id": 1, "memo": "a"}
    history.commit(NOON - timedelta(days=1), (ACCOUNT, None, row))
    history.commit(NOON, (ACCOUNT, row, {"id": 1, "memo": "b"}))
    return history


@pytest.mark.parametrize("clock", [ManualClock(), LONG_OVER], ids=["last night", "long over"])
@pytest.mark.parametrize("apart", [timedelta(minutes=1), timedelta(minutes=5)], ids=["stepwise", "there and back"])
def test_transactions_that_set_their_own_time_do_not_end_the_look(apart: timedelta, clock: ManualClock) -> None:
    history = begun()
    postings_ahead(history, apart=apart, count=130)
    date_goes_on(history)
    with pytest.raises(NotByLog, match="from 2026-03-05T13:00.* to 2026-03-05T22:00"):
        Night(history, clock=clock).read(read_at(history, 1, 1).base, DAYS[1])


def test_a_server_whose_clock_is_ahead_for_an_hour_does_not_end_last_nights_look() -> None:
    history = begun()
    beats(history, end_of(DAYS[1]), minutes=65)
    date_goes_on(history)
    with pytest.raises(NotByLog, match="from 2026-03-05T13:00"):
        Night(history).read(read_at(history, 1, 1).base, DAYS[1])


def test_statements_that_began_before_the_cut_off_and_end_behind_it_are_late_and_no_clock_that_was_ahead() -> None:
    """MariaDB gives a transaction the time at which its statement began."""
    history = begun()
    beats(history, end_of(DAYS[1]), minutes=1)
    for minutes in (12, 4):
        at = end_of(DAYS[1]) - timedelta(minutes=minutes)
        history.commit(at, (ENTRY, None, {"id": minutes, "day": DAYS[1], "memo": "long"}))
    beats(history, end_of(DAYS[1]) + timedelta(minutes=2), minutes=1)
    made = Night(history).read(read_at(history, 1, 1).base, DAYS[1]).made
    assert (made.transactions, made.late_total) == (1, 2)


def test_a_log_that_the_capture_has_not_written_yet_is_waited_for() -> None:
    """One early end, and the topic ends a minute behind it: the rest of the date comes before the marker."""
    history = begun()
    history.commit(end_of(DAYS[1]), (VISIT, None, {"day": DAYS[2], "memo": "v"}))
    history.commit(NOON + timedelta(minutes=1), (ENTRY, None, {"id": 2, "day": DAYS[1], "memo": "x"}))

    class Lagging(Night):
        def mark(self) -> str:
            date_goes_on(self.history)
            return super().mark()

    with pytest.raises(NotByLog, match="to 2026-03-05T22:00"):
        Lagging(history).read(read_at(history, 1, 1).base, DAYS[1])


def test_a_log_that_cannot_be_read_on_behind_the_end_ends_the_attempt() -> None:
    history = begun()
    history.commit(end_of(DAYS[1]))
    end = history.log.end
    history.commit(NOON + timedelta(minutes=1))

    class Away(TopicReader):
        def poll(self, timeout_s: float, records_max: int) -> Any:
            if self._next < len(self._log.records) and self._log.records[self._next].offset >= end:
                raise TransientError("the broker is away")
            return super().poll(timeout_s, records_max)

    class Silent(TopicReader):
        def poll(self, timeout_s: float, records_max: int) -> Any:
            clock.time += timeout_s
            return super().poll(timeout_s, records_max)

    clock = ManualClock()
    for reader, why in ((Away(history.log, at_most=1), "away"), (Silent(history.log), "not brought marker m0 within")):
        tools = LogTools(lambda reader=reader: reader, lambda: "m0", clock)  # type: ignore[misc]
        with pytest.raises(TransientError, match=why):
            read_to_cut_off(PLAN, read_at(history, 1, 1).base, end_of(DAYS[1]), tools)


def test_many_changes_end_the_look_only_where_heartbeats_say_that_the_date_is_over() -> None:
    history = begun()
    limits = CutLogLimits(changes_max=40)
    history.commit(end_of(DAYS[1]))
    for number in range(60):
        history.commit(end_of(DAYS[1]), (VISIT, None, {"day": DAYS[2], "memo": f"v{number}"}))
    history.commit(end_of(DAYS[1]), *((VISIT, None, {"day": DAYS[2], "memo": f"w{n}"}) for n in range(90)))
    beats(history, end_of(DAYS[1]), minutes=6)
    history.commit(end_of(DAYS[1]))
    base = read_at(history, 1, 1).base
    made = Night(history, clock=LONG_OVER, limits=limits).read(base, DAYS[1]).made
    assert (made.late_total, made.look_ended_by) == (0, "40 changes behind the cut")
    date_goes_on(history)
    history.commit(NOON, *((VISIT, None, {"day": DAYS[1], "memo": f"u{n}"}) for n in range(90)))
    with pytest.raises(NotByLog, match="in 11 transactions"):
        Night(history, limits=limits).read(base, DAYS[1])


def test_a_table_that_is_emptied_at_the_cut_off_is_not_emptied_in_the_cut() -> None:
    history = History()
    row = {"id": 1, "memo": "a"}
    history.commit(NOON, (ACCOUNT, None, row))
    history.empty(ACCOUNT, end_of(DAYS[1]))
    history.empty(VISIT, end_of(DAYS[1]) - timedelta(seconds=1))
    history.commit(end_of(DAYS[2]))
    found = Night(history).read(read_at(history, 0, 0).base, DAYS[1])
    assert (found.made.transactions, found.made.ended_by.split()[0], found.made.late_total) == (1, gtid(2), 1)


def test_a_table_that_is_changed_at_the_cut_off_ends_the_cut_before_it() -> None:
    history = History()
    history.commit(NOON)
    history.log.clock_ms = lambda: int(end_of(DAYS[1]).timestamp() * 1000)
    history.log.ddl("alter table entry add x int", "entry")
    history._keep(history.states[-1], end_of(DAYS[1]))
    made = Night(history).read(read_at(history, 0, 0).base, DAYS[1]).made
    assert (made.transactions, made.ended_by.split()[0]) == (1, gtid(2))
