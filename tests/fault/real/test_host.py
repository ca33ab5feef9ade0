"""A stream in a real stream host, under writers: host, JVM, Spark's daemon and Python workers die, or are overtaken."""

import time
from collections.abc import Iterator

import pytest

from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.hosted import TROUBLES, HostedBank, hosted
from tests.fault.real.report import Tally, Trouble


@pytest.fixture(scope="module")
def in_host(bank: BankUnderFire) -> Iterator[HostedBank]:
    with hosted(bank) as made:
        yield made


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_stream_whose_host_is_disturbed_goes_on_from_the_ledger(
    in_host: HostedBank, tally: Tally, trouble: str
) -> None:
    before = in_host.warehouse.commits_seen()
    in_host.stream()
    in_host.recovered(time.monotonic())
    TROUBLES[trouble](in_host)
    recovery_s = in_host.recovered(time.monotonic())
    checked = in_host.judged(before, recovery_s)
    tally.troubles.append(Trouble(in_host.kind, trouble, recovery_s, checked.commits, checked.violations))
    assert checked.violations == ()


def test_after_all_of_it_every_transaction_is_there_once_and_the_destination_is_the_source(
    in_host: HostedBank,
) -> None:
    assert in_host.at_the_end() == []
