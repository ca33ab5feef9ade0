"""The audit of a MariaDB destination shows each state that its binlog has committed, and what is wrong with it."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.position import position_to_json
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from tests.fault.real import binlog_audit
from tests.fault.real.anomalies import Anomaly, Commit, check_commits
from tests.fault.real.bank_plus import opening_totals
from tests.fault.real.binlog import Change, Committed
from tests.fault.real.binlog_audit import BinlogAudit, Model

STREAM = "bank@warehouse"
ACCOUNTS, ENTRIES, SEQ = ("live", "account"), ("live", "entry"), ("live", "seq")
LEDGER = ("live_seamline", "ledger")
SERVER = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def ledger_row(step: int) -> tuple[Any, ...]:
    position = json.dumps(position_to_json(MySqlPosition(GtidSet.parse(f"{SERVER}:1-{step}"))))
    return (STREAM, step * 10, position, 3, step)


def moved(step: int, *changes: Change) -> Committed:
    said = f"UPDATE `live_seamline`.ledger SET next_offset = {step * 10} WHERE stream = 's' AND epoch = 3"
    return Committed(("f", step), "", [said], [*changes, Change(LEDGER, ledger_row(step - 1), ledger_row(step))])


def leg(number: int, amount: str, of: int = 2) -> Change:
    return Change(ENTRIES, None, (number, 7, number, of, Decimal(amount)))


def seen(monkeypatch: pytest.MonkeyPatch, *transactions: Committed) -> tuple[Sequence[Commit], Model]:
    model = Model("live", "live_seamline", STREAM)
    totals = [(number, ccy, total) for number, (ccy, total) in enumerate(opening_totals().items())]
    model.begin(ACCOUNTS, ("id", "ccy", "balance"), ("id",), totals)
    model.begin(ENTRIES, ("id", "tx_id", "leg", "legs", "amount"), ("id",), [])
    model.begin(SEQ, ("writer", "n"), ("writer", "n"), [])
    ledger = ("stream", "next_offset", "position", "epoch", "applied_transactions")
    model.begin(LEDGER, ledger, ("stream",), [ledger_row(1)])
    model.begin(("live_seamline", "boundary"), ("stream", "table_name", "generation", "ended_at"), ("stream",), [])
    model.begin(("live_seamline", "publication"), ("run_id", "stream"), ("run_id", "stream"), [])
    monkeypatch.setattr(binlog_audit, "committed", lambda *_, **__: transactions)
    audit = BinlogAudit(model, folder=Path(), at=("f", 1))
    audit.read_on()
    return audit.seen, model


def test_a_whole_transfer_with_the_ledger_is_right_and_names_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    commits, model = seen(monkeypatch, moved(2, leg(1, "5"), leg(2, "-5")), moved(3, Change(SEQ, None, (0, 1))))
    assert check_commits(commits) == []
    assert [(one.owner_epoch, one.place, one.transfers_checked) for one in commits] == [(3, 2, 1), (3, 3, 0)]
    assert model.unseen == []


@pytest.mark.parametrize(
    ("transaction", "anomaly"),
    [
        (moved(2, leg(1, "5")), Anomaly.TORN),
        (moved(2, leg(1, "5"), leg(2, "-4")), Anomaly.TORN),
        (moved(2, Change(ACCOUNTS, (0, "CHF", opening_totals()["CHF"]), (0, "CHF", Decimal(1)))), Anomaly.TORN),
        (moved(2, Change(SEQ, None, (0, 2))), Anomaly.REORDERED),
        (Committed(("f", 2), changes=[Change(("live", "typ"))]), Anomaly.TORN),
        (Committed(("f", 2), "RENAME TABLE `live`.`typ` TO `live`.`old`"), Anomaly.TORN),
    ],
)
def test_a_wrong_state_is_found_at_its_commit(
    transaction: Committed, anomaly: Anomaly, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, _ = seen(monkeypatch, transaction)
    assert [one.anomaly for one in check_commits(commits)] == [anomaly]


def test_what_was_rolled_back_or_is_of_others_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    back = Committed(("f", 2), changes=[leg(1, "5")], is_rolled_back=True)
    others = Committed(("f", 3), "DROP TABLE `live_stage`.`typ`", changes=[Change(("live_stage", "typ"))])
    assert seen(monkeypatch, back, others)[0] == []


def test_a_row_that_was_not_what_the_binlog_says_has_been_changed_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = seen(monkeypatch, moved(2, Change(SEQ, (0, 1), (0, 2))))
    assert len(model.unseen) == 1
