"""T1: whatever works on a sync is killed, fails, waits, or sleeps until another has taken over, at every failpoint and
under writers, and goes on by itself from the ledger.

`./seamline test fault`; `--pytest="-k 'kill9 and commit_sent' --seed 17"` for a part with the hits of that seed.
"""

import random
from contextlib import closing

import pytest

from seamline.adapters.failpoints import NAMES, Mode
from tests.fault.real.anomalies import Anomaly, check_commits
from tests.fault.real.bank_under_fire import COMMITS_MIN, BankUnderFire
from tests.fault.real.kinds import SESSIONS
from tests.fault.real.report import End, Tally

# How often each case is made. A sleep costs more time than a kill, and all of it has 40 minutes.
TIMES_A_STREAM = {Mode.KILL9: 2, Mode.ERROR: 1, Mode.STOP: 1, Mode.WAIT: 1}
TIMES_A_RUN = {Mode.KILL9: 1, Mode.ERROR: 1, Mode.STOP: 1, Mode.WAIT: 1}
# Where a place can be reached more often than once in the life of a process; then it dies at any of its first times.
HITS_MAX = {"app.epoch_taken": 1, "app.hold": 4, "app.piece_staged": 3, "app.reported": 4, "cut.overlap_ended": 1}
HITS_MAX_ELSE = 25
STREAM = sorted(name for name in NAMES if name.startswith(("app.", "cut.")))
# MariaDB has no slots.
SLOT = "snap.slot_created"
ONBOARDING = sorted(name for name in NAMES if name.startswith(("snap.", "pub.")) and name != SLOT)
COMPARING = sorted(name for name in NAMES if name.startswith("rec."))
CAPTURING = sorted(name for name in NAMES if name.startswith("cap."))
# Those of a pass, which is a stream too, and of its joining.
JOINING = ("pub.commit_sent", "app.epoch_taken", "app.fetched", "app.commit_sent", "addtable.joined")


# With those that `tests/dags` meets they are all that there are (tests/unit/test_failpoints.py).
MET_HERE = frozenset({*STREAM, SLOT, *ONBOARDING, *JOINING, *COMPARING, *CAPTURING})

# Wrong states by what the trigger must say of them; each is rolled back.
WRONG_STATES = {
    "UPDATE live.account SET balance = balance + 0.0001 WHERE id = 7": Anomaly.TORN,
    "DELETE FROM live.account WHERE id = 7": Anomaly.TORN,
    "DELETE FROM live.entry WHERE id = (SELECT min(id) FROM live.entry)": Anomaly.TORN,
    "UPDATE live.entry SET amount = amount + 1 WHERE id = (SELECT min(id) FROM live.entry)": Anomaly.TORN,
    "INSERT INTO live.entry SELECT -1, tx_id, leg, legs, account_id, ccy, amount, booked_at, memo FROM live.entry "
    "LIMIT 1": Anomaly.TORN,
    "DELETE FROM live.seq WHERE (writer, n) = (0, 1)": Anomaly.REORDERED,
}


@pytest.mark.parametrize("statement", WRONG_STATES)
def test_the_warehouse_sees_a_wrong_state_when_it_is_committed(bank: BankUnderFire, statement: str) -> None:
    (found,) = check_commits([bank.warehouse.seen_after(statement)])
    assert found.anomaly is WRONG_STATES[statement]
    assert check_commits([bank.warehouse.seen_after("SELECT 1")]) == []


def test_the_warehouse_sees_a_commit_of_rows_that_leaves_the_ledger_alone(bank: BankUnderFire) -> None:
    """Nor is the ledger of another stream its place: a pass that writes where it should not."""
    columns = "topic, topic_id, next_offset, position, epoch"
    rows = "UPDATE live.typ SET id = id WHERE id = 0"
    others = f"INSERT INTO seamline.ledger (stream, {columns}) SELECT 'another', {columns} FROM seamline.ledger LIMIT 1"
    for statement in (rows, f"{others}; {rows}", f"{rows}; {others}"):
        (found,) = check_commits([bank.warehouse.seen_after_rows(statement)])
        assert (found.anomaly, "not the ledger" in found.said) == (Anomaly.TORN, True)


def test_the_warehouse_sees_by_which_epoch_a_commit_was_made(bank: BankUnderFire) -> None:
    now = bank.warehouse.seen_after("SELECT 1").epoch
    assert check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now)]) == []
    (found,) = check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now - 1)])
    assert found.anomaly is Anomaly.STALE_EPOCH


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", ONBOARDING)
def test_an_onboarding_that_is_disturbed_is_done_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    for _ in range(TIMES_A_RUN[mode]):
        case = bank.disturb_onboarding(failpoint, mode)
        tally.cases.append(case)
        assert case.violations == ()


@pytest.mark.parametrize("bank", ["postgres"], indirect=True)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_slot_goes_with_the_snapshot_that_was_disturbed_while_it_stood(
    bank: BankUnderFire, tally: Tally, mode: Mode
) -> None:
    case = bank.disturb_onboarding(SLOT, mode)
    tally.cases.append(case)
    assert case.violations == ()
    with closing(SESSIONS["postgres"](bank.source.root)) as session, session.cursor() as cursor:
        cursor.execute("SELECT slot_name FROM pg_replication_slots WHERE temporary AND database = current_database()")
        assert cursor.fetchall() == []


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", JOINING)
def test_tables_whose_joining_is_disturbed_join_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    for _ in range(TIMES_A_RUN[mode]):
        case = bank.disturb_joining(failpoint, mode)
        tally.cases.append(case)
        assert case.violations == ()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", COMPARING)
def test_a_comparison_that_is_disturbed_is_made_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    for _ in range(TIMES_A_RUN[mode]):
        case = bank.disturb_comparison(failpoint, mode)
        tally.cases.append(case)
        assert case.violations == ()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", CAPTURING)
def test_a_change_of_the_captured_tables_that_is_disturbed_is_made_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    for _ in range(TIMES_A_RUN[mode]):
        case = bank.disturb_capture(failpoint, mode)
        tally.cases.append(case)
        assert case.violations == ()


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
    anomalies = bank.at_the_end()
    commits = bank.warehouse.commits_seen()
    tally.ends.append(
        End(
            bank.kind,
            len(bank.writers.history.attempts),
            bank.writers.committed,
            bank.replay.units,
            commits,
            tuple(anomalies),
        )
    )
    assert anomalies == []
    assert commits >= COMMITS_MIN
