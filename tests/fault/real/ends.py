"""The last test of each world of a source: its writers stop, and all that they did is held against the destination."""

from tests.fault.real.bank_under_fire import COMMITS_MIN, BankUnderFire
from tests.fault.real.report import End, Tally


def assert_all_is_right_at_the_end(bank: BankUnderFire, tally: Tally) -> None:
    anomalies = bank.at_the_end()
    commits = bank.warehouse.commits_seen()
    attempts, transactions = len(bank.writers.history.attempts), bank.replay.transactions
    tally.ends.append(End(bank.pair, attempts, bank.writers.committed, transactions, commits, tuple(anomalies)))
    assert anomalies == []
    assert commits >= COMMITS_MIN
