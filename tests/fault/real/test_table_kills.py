"""T1: what is done to tables of a stream that runs is disturbed at every failpoint: they join it, are compared, and one
more is captured.
"""

import pytest

from seamline.adapters.failpoints import Mode
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.ends import assert_all_is_right_at_the_end
from tests.fault.real.places import CAPTURING, COMPARING, JOINING
from tests.fault.real.report import Tally


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", JOINING)
def test_tables_whose_joining_is_disturbed_join_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_joining(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", COMPARING)
def test_a_comparison_that_is_disturbed_is_made_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_comparison(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", CAPTURING)
def test_a_change_of_the_captured_tables_that_is_disturbed_is_made_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_capture(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


def test_after_all_cases_every_transaction_is_there_once_and_the_destination_is_the_source(
    bank: BankUnderFire, tally: Tally
) -> None:
    assert_all_is_right_at_the_end(bank, tally)
