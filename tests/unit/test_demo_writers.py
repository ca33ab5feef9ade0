"""How fast the demo's writers go."""

import pytest

from seamline.demo.bank import FULL, RESERVE_ACCOUNTS, SMALL, currency_of
from seamline.demo.writers import WRITERS, Writer


@pytest.mark.parametrize(("accounts", "per_s"), [(FULL.accounts, 100), (SMALL.accounts, 22), (50_000, 100)])
def test_a_small_bank_is_written_to_more_slowly_and_none_faster_than_a_hundred_times_a_second(
    accounts: int, per_s: int
) -> None:
    writer = Writer(0, seed=7)
    for account in range(RESERVE_ACCOUNTS + 1, accounts + 1):
        writer.accounts.setdefault(currency_of(account), []).append(account)
    assert WRITERS / writer.pause_s == pytest.approx(per_s, abs=0.5)
