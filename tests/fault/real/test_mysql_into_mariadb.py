"""T1 with a source and a destination of other kinds: where MySQL is read and where MariaDB is written, a stream, an
onboarding, a joining and a comparison are killed, fail, or sleep until another has taken over.

Its commits are looked at in MariaDB's own binlog (`binlog_audit.py`), which is shown wrong states first.
"""

import random

import pytest

from seamline.adapters.failpoints import Mode
from tests.fault.real.anomalies import Anomaly, check_commits
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.ends import assert_all_is_right_at_the_end
from tests.fault.real.places import (
    FIRST_PUBLISH,
    HITS_MAX,
    HITS_MAX_ELSE,
    READ_AND_PUBLISHED,
    SINK_OF_A_COMPARISON,
    SINK_OF_A_JOINING,
    SINK_OF_A_STREAM,
)
from tests.fault.real.report import Tally
from tests.fault.real.warehouse_mariadb import MariaDbWarehouse
from tests.fault.real.wrong_states import WRONG_STATES

pytestmark = pytest.mark.parametrize("bank", ["mysql"], indirect=True, scope="module")


@pytest.mark.parametrize("statement", WRONG_STATES)
def test_the_binlog_shows_a_wrong_state_that_was_committed(bank: BankUnderFire, statement: str) -> None:
    (found,) = check_commits([bank.warehouse.seen_after(statement)])
    assert found.anomaly is WRONG_STATES[statement]
    assert check_commits([bank.warehouse.seen_after("SELECT 1")]) == []
    assert bank.warehouse.missing_audit() == []


def test_the_binlog_shows_a_commit_of_rows_that_leaves_the_ledger_alone(bank: BankUnderFire) -> None:
    columns = "topic, topic_id, next_offset, position, epoch"
    others = (
        f"INSERT INTO live_seamline.ledger (stream, {columns}) SELECT 'another', {columns}"
        " FROM live_seamline.ledger LIMIT 1"
    )
    rows = "UPDATE live.account SET ver = ver + 1 WHERE id = 7"
    for statements in ((rows,), (others, rows), (rows, others), ("ALTER TABLE live.typ COMMENT 'changed'",)):
        (found,) = check_commits([bank.warehouse.seen_after_rows(*statements)])
        assert (found.anomaly, "not the ledger" in found.said) == (Anomaly.TORN, True)


def test_the_binlog_shows_by_which_epoch_a_commit_was_made(bank: BankUnderFire) -> None:
    now = bank.warehouse.seen_after("SELECT 1").epoch
    assert check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now)]) == []
    (found,) = check_commits([bank.warehouse.seen_after("SELECT 1", owner_epoch=now - 1)])
    assert found.anomaly is Anomaly.STALE_EPOCH


def test_a_commit_that_is_in_no_binlog_is_found_in_the_tables(bank: BankUnderFire) -> None:
    assert isinstance(bank.warehouse, MariaDbWarehouse)
    with bank.warehouse.unlogged("UPDATE live.account SET ver = ver + {by} WHERE id = 7"):
        assert bank.warehouse.commits_seen() == 0
        (said,) = bank.warehouse.missing_audit()
        assert said.startswith("account (7,) is")
    assert bank.warehouse.missing_audit() == []


@pytest.mark.parametrize(("failpoint", "mode"), FIRST_PUBLISH)
def test_tables_that_are_published_first_get_their_names_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_first_publish(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize(("failpoint", "mode"), SINK_OF_A_STREAM)
def test_a_stream_into_mariadb_that_is_disturbed_goes_on_from_the_ledger(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    chance = random.Random(f"{tally.seed}/{bank.kind}/{failpoint}/{mode}")
    case = bank.disturb_stream(failpoint, mode, chance.randint(1, HITS_MAX.get(failpoint, HITS_MAX_ELSE)))
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize(("failpoint", "mode"), READ_AND_PUBLISHED)
def test_an_onboarding_of_mysql_into_mariadb_that_is_disturbed_is_done_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_onboarding(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize(("failpoint", "mode"), SINK_OF_A_JOINING)
def test_tables_whose_joining_in_mariadb_is_disturbed_join_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_joining(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize(("failpoint", "mode"), SINK_OF_A_COMPARISON)
def test_a_comparison_of_mysql_and_mariadb_that_is_disturbed_is_made_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_comparison(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


def test_after_all_cases_every_transaction_is_there_once_and_the_destination_is_the_source(
    bank: BankUnderFire, tally: Tally
) -> None:
    assert_all_is_right_at_the_end(bank, tally)
