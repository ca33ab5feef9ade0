"""The history checker of the fault layer: it finds a planted anomaly of every class, and nothing in a clean history."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from tests.fault.real.anomalies import (
    Anomaly,
    Commit,
    Dump,
    Found,
    Leg,
    NothingChecked,
    Stop,
    check_commits,
    check_rows,
    check_stops,
    value_differences,
)
from tests.fault.real.bank_plus import MODELLED
from tests.fault.real.history import Attempt, AuditRow, History, Outcome
from tests.fault.real.log_replay import differences
from tests.fault.real.window import Window

LOOK = ("desk 1", "look")


@dataclass
class Run:
    """A clean run of two writers; a plant makes it wrong."""

    history: list[Attempt] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    entries: list[Leg] = field(default_factory=list)
    seq: list[tuple[int, int]] = field(default_factory=list)
    audit: Counter[AuditRow] = field(default_factory=Counter)
    stops: list[Stop] = field(default_factory=list)

    def found(self) -> list[Found]:
        dump = Dump(self.entries, self.seq, self.audit)
        return [*check_commits(self.commits), *check_rows(self.history, dump), *check_stops(self.stops)]


def applied(*, by: int) -> dict[str, int]:
    """What two transfers leave in a commit."""
    return {"transfers_checked": 2, "has_rows": True, "owner_epoch": by}


def clean() -> Run:
    run = Run()
    for writer in (0, 1):
        for number in (1, 2, 3):
            attempt_id = writer * 100 + number
            audit = Counter({LOOK: 3 if number == 1 else -1})
            run.history.append(Attempt(attempt_id, writer, "transfer", Outcome.OK, number, 3, audit))
            run.entries += legs(attempt_id)
            run.seq.append((writer, number))
            run.audit.update(audit)
    run.history.append(Attempt(50, 0, "roll back", Outcome.FAIL, 4, 2, Counter({LOOK: 1})))
    run.history.append(Attempt(51, 0, "no change", Outcome.OK, 4))
    run.seq.append((0, 4))
    run.commits = [
        Commit(1, 1, 10, 100, 1, 2, **applied(by=1)),
        Commit(2, 1, 20, 200, 1, 4, **applied(by=1)),
        Commit(3, 2, 20, 200, 1, 4, owner_epoch=2),
        Commit(4, 2, 30, 300, 1, 6, **applied(by=2)),
        # It stands for a comparison, and says how far it is.
        Commit(5, 2, 30, 310, 1, 6, owner_epoch=2),
        # A publish takes readers back to its snapshot.
        Commit(6, 3, 15, 250, 2, 6),
        Commit(7, 4, 15, 250, 2, 6),
        # Transactions that the snapshot covers are passed.
        Commit(8, 4, 20, 250, 2, 8, owner_epoch=4, is_catching_up=True),
        Commit(9, 4, 40, 400, 2, 9, owner_epoch=4),
    ]
    run.stops = [Stop("stream", -9, (-9,)), Stop("stream", 0, (0,))]
    return run


def legs(attempt_id: int) -> list[Leg]:
    return [Leg(attempt_id, leg, 3, Decimal(amount)) for leg, amount in enumerate(("1.5", "2.5", "-4"))]


def amid(run: Run, outcome: Outcome) -> Attempt:
    """One more attempt of writer 1, its last, whose outcome is this."""
    attempt = Attempt(150, 1, "transfer", outcome, 4, 3, Counter({LOOK: 1}))
    run.history.append(attempt)
    return attempt


def a_transfer_is_missing(run: Run) -> None:
    run.entries = [leg for leg in run.entries if leg.transfer != 102]


def a_number_is_missing(run: Run) -> None:
    run.seq.remove((1, 2))


def a_keyless_row_is_missing(run: Run) -> None:
    run.audit[LOOK] -= 1


def a_transfer_that_nobody_made(run: Run) -> None:
    run.entries += legs(999)


def a_number_that_nobody_committed(run: Run) -> None:
    run.seq.append((1, 4))


def a_keyless_row_that_nobody_wrote(run: Run) -> None:
    run.audit["desk 9", "sign"] = 1


def a_transfer_that_was_rolled_back(run: Run) -> None:
    run.entries += legs(50)[:2]


def a_leg_is_missing(run: Run) -> None:
    run.entries.remove(legs(102)[1])


def a_leg_has_another_amount(run: Run) -> None:
    run.entries[0] = replace(run.entries[0], amount=Decimal(9))


def half_of_a_transfer_whose_outcome_is_unknown(run: Run) -> None:
    amid(run, Outcome.INFO)
    run.entries += legs(150)[:1]


def a_commit_with_wrong_sums(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], wrong_sums=("EUR",))


def a_commit_with_half_a_transfer(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], torn=(102,))


def a_leg_is_there_twice(run: Run) -> None:
    run.entries.append(legs(102)[1])


def a_number_is_there_twice(run: Run) -> None:
    run.seq.append((1, 2))


def a_keyless_row_is_there_once_more(run: Run) -> None:
    run.audit[LOOK] += 1


def the_offset_falls(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], next_offset=9)


def the_position_stands_though_a_span_was_applied(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], place=100)


def a_transaction_is_passed_though_the_position_stands_and_no_boundary_is_open(run: Run) -> None:
    run.commits[7] = replace(run.commits[7], is_catching_up=False)


def rows_change_while_the_position_stands_at_the_snapshot(run: Run) -> None:
    run.commits[7] = replace(run.commits[7], has_rows=True)


def rows_change_though_the_offset_stands(run: Run) -> None:
    run.commits[4] = replace(run.commits[4], has_rows=True)


def a_transaction_is_applied_though_the_offset_stands(run: Run) -> None:
    run.commits[4] = replace(run.commits[4], transactions=7)


def the_count_of_transactions_falls(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], transactions=1)


def a_later_number_comes_first(run: Run) -> None:
    run.commits[1] = replace(run.commits[1], gaps=(1,))


def a_commit_of_an_epoch_that_is_over(run: Run) -> None:
    run.commits.append(Commit(10, 3, 50, 500, 2, 10, owner_epoch=3))


def a_commit_by_an_owner_whose_epoch_is_over(run: Run) -> None:
    run.commits[3] = replace(run.commits[3], owner_epoch=1)


def a_commit_of_nobody_knows_whom(run: Run) -> None:
    run.commits[3] = replace(run.commits[3], owner_epoch=None)


def a_commit_of_rows_beside_the_ledger(run: Run) -> None:
    run.commits.insert(3, Commit(99, 0, 0, 0, 0, 0, has_ledger=False))


def a_publish_lowers_the_epoch(run: Run) -> None:
    run.commits[5] = replace(run.commits[5], epoch=1)


def a_stream_that_ends_by_itself(run: Run) -> None:
    run.stops.append(Stop("stream", 5, (0,)))


def a_stream_that_nobody_killed(run: Run) -> None:
    run.stops.append(Stop("stream", -9, (0,)))


PLANTED: dict[Callable[[Run], None], Anomaly] = {
    a_transfer_is_missing: Anomaly.LOST,
    a_number_is_missing: Anomaly.LOST,
    a_keyless_row_is_missing: Anomaly.LOST,
    a_transfer_that_nobody_made: Anomaly.PHANTOM,
    a_number_that_nobody_committed: Anomaly.PHANTOM,
    a_keyless_row_that_nobody_wrote: Anomaly.PHANTOM,
    a_transfer_that_was_rolled_back: Anomaly.ABORTED_VISIBLE,
    a_leg_is_missing: Anomaly.TORN,
    a_leg_has_another_amount: Anomaly.TORN,
    half_of_a_transfer_whose_outcome_is_unknown: Anomaly.TORN,
    a_commit_with_wrong_sums: Anomaly.TORN,
    a_commit_with_half_a_transfer: Anomaly.TORN,
    a_leg_is_there_twice: Anomaly.DUPLICATED,
    a_number_is_there_twice: Anomaly.DUPLICATED,
    a_keyless_row_is_there_once_more: Anomaly.DUPLICATED,
    the_offset_falls: Anomaly.REORDERED,
    the_position_stands_though_a_span_was_applied: Anomaly.REORDERED,
    rows_change_though_the_offset_stands: Anomaly.REORDERED,
    a_transaction_is_applied_though_the_offset_stands: Anomaly.REORDERED,
    the_count_of_transactions_falls: Anomaly.REORDERED,
    a_transaction_is_passed_though_the_position_stands_and_no_boundary_is_open: Anomaly.REORDERED,
    rows_change_while_the_position_stands_at_the_snapshot: Anomaly.REORDERED,
    a_later_number_comes_first: Anomaly.REORDERED,
    a_commit_of_an_epoch_that_is_over: Anomaly.STALE_EPOCH,
    a_publish_lowers_the_epoch: Anomaly.STALE_EPOCH,
    a_commit_by_an_owner_whose_epoch_is_over: Anomaly.STALE_EPOCH,
    a_commit_of_nobody_knows_whom: Anomaly.STALE_EPOCH,
    a_commit_of_rows_beside_the_ledger: Anomaly.TORN,
    a_stream_that_ends_by_itself: Anomaly.UNEXPLAINED_STOP,
    a_stream_that_nobody_killed: Anomaly.UNEXPLAINED_STOP,
}


def test_a_clean_history_has_no_anomaly() -> None:
    assert clean().found() == []


@pytest.mark.parametrize("plant", list(PLANTED), ids=lambda plant: plant.__name__)
def test_a_planted_anomaly_is_found_in_its_class(plant: Callable[[Run], None]) -> None:
    run = clean()
    plant(run)
    assert {found.anomaly for found in run.found()} == {PLANTED[plant]}


def test_there_is_a_planted_anomaly_of_every_class() -> None:
    assert set(PLANTED.values()) == set(Anomaly)


@pytest.mark.parametrize("is_there", [True, False])
def test_an_attempt_without_an_answer_may_be_there_once_or_not_at_all(is_there: bool) -> None:
    run = clean()
    amid(run, Outcome.INFO)
    if is_there:
        run.entries += legs(150)
        run.seq.append((1, 4))
        run.audit[LOOK] += 1
    assert run.found() == []


def test_an_attempt_without_an_answer_is_not_there_twice() -> None:
    run = clean()
    amid(run, Outcome.INFO)
    run.entries += legs(150) * 2
    assert [found.anomaly for found in run.found()] == [Anomaly.DUPLICATED]


@pytest.mark.parametrize("missing", ["history", "commits", "entries", "seq"])
def test_a_run_that_has_seen_nothing_is_no_pass(missing: str) -> None:
    run = clean()
    setattr(run, missing, [])
    with pytest.raises(NothingChecked):
        run.found()


def test_a_history_is_on_disk_attempt_by_attempt(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    for attempt in clean().history:
        history.append(attempt)
    lines = (tmp_path / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(history.attempts) == len(clean().history)
    assert '"outcome": "ok"' in lines[0]


class Rows:
    """A warehouse that holds what a run has left."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def dump_of(self, attempts: Sequence[int]) -> Dump:
        numbers = {(one.writer, one.number) for one in self._run.history if one.attempt_id in attempts}
        return Dump(
            [leg for leg in self._run.entries if leg.transfer in attempts],
            [row for row in self._run.seq if row in numbers],
        )


def window_of(run: Run) -> Window:
    history = History()
    for attempt in run.history:
        history.append(attempt)
    return Window(history, Rows(run))


def test_windows_of_a_clean_history_follow_each_other_without_an_anomaly() -> None:
    run = clean()
    window = window_of(run)
    assert window.wrong_before(4) == []
    a_transfer_is_missing(run)
    run.entries = [leg for leg in run.entries if leg.transfer not in (1, 2)]
    assert window.wrong_before(len(run.history)) == ["lost: transfer 102 has no entries of 3"]


@pytest.mark.parametrize(
    "plant",
    [
        a_transfer_is_missing,
        a_number_is_missing,
        a_transfer_that_was_rolled_back,
        a_leg_is_missing,
        a_leg_has_another_amount,
        half_of_a_transfer_whose_outcome_is_unknown,
        a_leg_is_there_twice,
        a_number_is_there_twice,
    ],
)
def test_an_anomaly_that_is_planted_in_a_window_is_found_in_its_class(plant: Callable[[Run], None]) -> None:
    run = clean()
    plant(run)
    (found,) = window_of(run).wrong_before(len(run.history))
    assert found.startswith(f"{PLANTED[plant]}: ")


def test_a_window_in_which_nothing_has_succeeded_is_no_pass() -> None:
    run = clean()
    window = window_of(run)
    assert window.wrong_before(len(run.history)) == []
    with pytest.raises(NothingChecked):
        window.wrong_before(len(run.history))


@pytest.mark.parametrize("table", MODELLED)
def test_a_row_too_many_or_too_few_is_a_difference_in_any_table(table: str) -> None:
    rows = {name: Counter({(1, "a"): 2, (2, "b"): 1}) for name in MODELLED}
    assert differences(rows, rows) == []
    for change in (1, -1):
        (said,) = differences({**rows, table: Counter({**rows[table], (2, "b"): 1 + change})}, rows)
        assert said.startswith(f"{table}: ")


SAMPLE = Table(
    "typ", (Column("f", Kind.FLOAT, "float"), Column("d", Kind.DOUBLE, "double"), Column("t", Kind.STRING, "text"))
)
SAID = {"f": "0.10000000149011612", "d": "1.7976931348623157e308", "t": "0.10"}


def test_a_number_that_two_servers_write_in_two_ways_is_one_number() -> None:
    assert (
        value_differences(SAMPLE, ["1"], {"1": SAID}, {"1": {**SAID, "f": "0.1", "d": "1.7976931348623157e+308"}}) == []
    )


@pytest.mark.parametrize(
    "other",
    [{"f": "0.10000001"}, {"f": "-0.1"}, {"d": "1.7976931348623155e308"}, {"d": None}, {"t": "0.1"}, {"t": None}],
    ids=str,
)
def test_a_value_that_is_another_in_the_destination_is_named_with_its_row(other: dict[str, str | None]) -> None:
    (said,) = value_differences(SAMPLE, ["1", "2"], {"1": SAID, "2": SAID}, {"1": SAID, "2": {**SAID, **other}})
    assert said.startswith("typ: row 2 is ")


def test_a_row_that_only_one_of_the_two_has_is_a_difference() -> None:
    assert len(value_differences(SAMPLE, ["1", "2", "3"], {"1": SAID}, {"2": SAID})) == 2
    assert value_differences(SAMPLE, ["1"], {}, {}) == ["typ: no row was looked at"]
