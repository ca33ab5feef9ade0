"""What is found in the log behind the end of a cut: transactions of its date, and how far they are looked for."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from seamline.domain.made_from import BY_LOG, NotByLog, by_log_in_words, by_log_to_json
from seamline.sync.log_cut import LogTools, read_to_cut_off
from tests.log_topic import TopicReader, gtid
from tests.unit.test_log_cut import ACCOUNT, DAYS, ENTRY, NOON, PLAN, VISIT, History, Night, end_of, read_at


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


AHEAD_BY = [timedelta(0), timedelta(minutes=5), timedelta(hours=1), timedelta(days=3)]


@pytest.mark.parametrize("ahead", AHEAD_BY)
def test_transactions_of_the_date_behind_its_end_are_listed_however_far_that_one_is_ahead(ahead: timedelta) -> None:
    history = with_a_clock_ahead(ahead, [NOON + timedelta(seconds=number) for number in range(5)])
    found = Night(history).read(read_at(history, 1, 1).base, DAYS[1])
    assert (found.made.transactions, found.made.late_total) == (1, 5)
    assert [one.position.split()[0] for one in found.made.late] == [gtid(number) for number in range(4, 9)]
    (_, looked, late) = by_log_in_words({BY_LOG: by_log_to_json(found.made)})
    latest = max(end_of(DAYS[1]) + ahead, end_of(DAYS[2]))
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


def test_of_a_date_that_is_long_over_an_hour_of_later_commits_ends_the_look() -> None:
    history = with_a_clock_ahead(timedelta(0), [])
    for number in range(200):
        history.commit(end_of(DAYS[2]) + timedelta(seconds=30 * number))
    made = Night(history).read(read_at(history, 1, 1).base, DAYS[1]).made
    # One step of 60 s leads there, whatever it leaps over.
    hour = end_of(DAYS[2]) + timedelta(minutes=59)
    assert (made.late_total, made.look_ended_by) == (0, "")
    assert abs(datetime.fromisoformat(made.looked_until) - hour) <= timedelta(minutes=1)


def test_a_table_that_is_emptied_at_the_cut_off_is_not_emptied_in_the_cut() -> None:
    history = History()
    row = {"id": 1, "memo": "a"}
    history.commit(NOON, (ACCOUNT, None, row))
    history.empty(ACCOUNT, end_of(DAYS[1]))
    history.empty(VISIT, end_of(DAYS[1]) - timedelta(seconds=1))
    history.commit(end_of(DAYS[2]))
    found = Night(history).read(read_at(history, 0, 0).base, DAYS[1])
    assert (found.made.transactions, found.made.ended_by.split()[0], found.made.late_total) == (1, gtid(2), 1)
