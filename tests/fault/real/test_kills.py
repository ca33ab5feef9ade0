"""T1: a stream is killed, fails, waits, or sleeps until another has taken over, at every failpoint and under writers,
and goes on by itself from the ledger; and what the warehouse must see at its commits.

`./seamline test fault`; `--pytest="-k 'kill9 and commit_sent' --seed 17"` for a part with the hits of that seed.
"""

import random

import pytest

from seamline.adapters.failpoints import Mode
from tests.fault.real.anomalies import Anomaly, check_commits
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.ends import assert_all_is_right_at_the_end
from tests.fault.real.places import HITS_MAX, HITS_MAX_ELSE, STREAM, TIMES_A_STREAM
from tests.fault.real.report import Tally
from tests.fault.real.wrong_states import WRONG_STATES


@pytest.mark.parametrize("statement", WRONG_STATES)
def test_the_warehouse_sees_a_wrong_state_when_it_is_committed(bank: BankUnderFire, statement: str) -> None:
    (found,) = check_commits([bank.warehouse.seen_after(statement)])
    assert found.anomaly is WRONG_STATES[statement]
    assert check_commits([bank.warehouse.seen_after("SELECT 1")]) == []


def test_the_warehouse_sees_a_commit_of_rows_that_leaves_the_ledger_alone(bank: BankUnderFire) -> None:
    """Nor is the ledger of another stream its place: an incremental snapshot that writes where it should not."""
    columns = "topic, topic_id, next_offset, position, epoch"
    rows = "UPDATE live.typ SET id = id WHERE id = 0"
    others = f"INSERT INTO seamline.ledger (stream, {columns}) SELECT 'another', {columns} FROM seamline.ledger LIMIT 1"
    for statements in ((rows,), (others, rows), (rows, others)):
        (found,) = check_commits([bank.warehouse.seen_after_rows(*statements)])
        assert (found.anomaly, "not the ledger" in found.said) == (Anomaly.TORN, True)


def test_the_warehouse_sees_by_which_epoch_a_commit_was_made(bank: BankUnderFire) -> None:
    now = bank.warehouse.seen_after("SELECT 1").epoch
    assert check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now)]) == []
    (found,) = check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now - 1)])
    assert found.anomaly is Anomaly.STALE_EPOCH


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", STREAM)
def test_a_stream_that_is_disturbed_goes_on_from_the_ledger(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    chance = random.Random(f"{tally.seed}/{bank.kind}/{failpoint}/{mode}")
    for _ in range(TIMES_A_STREAM[mode]):
        case = bank.disturb_stream(failpoint, mode, chance.randint(1, HITS_MAX.get(failpoint, HITS_MAX_ELSE)))
        tally.cases.append(case)
        assert case.violations == ()


def test_after_all_cases_every_transaction_is_there_once_and_the_destination_is_the_source(
    bank: BankUnderFire, tally: Tally
) -> None:
    assert_all_is_right_at_the_end(bank, tally)
