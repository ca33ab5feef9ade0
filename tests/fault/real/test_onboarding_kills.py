"""T1: a snapshot and a publish are killed, fail, wait, or sleep while another attempt works, at every failpoint; the
next attempt does the onboarding, and the stream goes on.
"""

from contextlib import closing

import pytest

from seamline.adapters.failpoints import Mode
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.ends import assert_all_is_right_at_the_end
from tests.fault.real.kinds import SESSIONS
from tests.fault.real.places import ONBOARDING, SLOT
from tests.fault.real.report import Tally


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", ONBOARDING)
def test_an_onboarding_that_is_disturbed_is_done_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
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


def test_after_all_cases_every_transaction_is_there_once_and_the_destination_is_the_source(
    bank: BankUnderFire, tally: Tally
) -> None:
    assert_all_is_right_at_the_end(bank, tally)
