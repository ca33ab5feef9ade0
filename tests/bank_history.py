"""Random histories of the three test tables, with what the source held after each transaction."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.log_topic import ACCOUNT, AUDIT, TRANSFER, Change, LogTopic, delete, insert, update

Row = dict[str, Any]


@dataclass(slots=True)
class Model:
    """The source's tables: a dict by key, a multiset where there is no key."""

    account: dict[int, Row] = field(default_factory=dict)
    transfer: dict[tuple[int, int], Row] = field(default_factory=dict)
    audit: Counter[str] = field(default_factory=Counter)

    def snapshot(self) -> dict[str, list[str]]:
        return {
            "account": canonical(self.account.values()),
            "transfer": canonical(self.transfer.values()),
            "audit": sorted(self.audit.elements()),
        }


def canonical(rows: Any) -> list[str]:
    return sorted(text_of(row) for row in rows)


def text_of(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


@dataclass(slots=True)
class History:
    """A log, and what the source held: `states[n]` after transaction n, `states[0]` before all."""

    log: LogTopic
    states: list[dict[str, list[str]]]


_IDS = st.integers(0, 4)
_NAMES = st.sampled_from(["a", "A", "a ", "", "ü'\"\\", "line\nbreak", "0"])


@st.composite
def histories(draw: st.DrawFn, *, transactions_max: int = 12) -> History:
    """Transactions of up to six changes: inserts, updates, deletes, key changes, identical rows, truncates, noise."""
    log, model = LogTopic(), Model()
    states = [model.snapshot()]
    for _ in range(draw(st.integers(1, transactions_max))):
        kind = draw(st.sampled_from(["rows"] * 8 + ["empty", "truncate", "foreign"]))
        if kind == "truncate":
            table = draw(st.sampled_from(["account", "audit"]))
            log.truncate(table)
            (model.account if table == "account" else model.audit).clear()
        else:
            log.begin()
            for _ in range(draw(st.integers(1, 6)) if kind == "rows" else 0):
                log.row(draw(st.sampled_from([_account, _transfer, _audit]))(draw, model))
            if kind == "foreign":
                log.row(Change("elsewhere", after={"x": 1}))
            if draw(st.booleans()):
                log.heartbeat()
            log.finish()
        states.append(model.snapshot())
    # Closes a TRUNCATE that stands last, as the next heartbeat marker would.
    log.transaction()
    states.append(model.snapshot())
    return History(log, states)


def _account(draw: st.DrawFn, model: Model) -> Change:
    number, name = draw(_IDS), draw(_NAMES)
    known = model.account.get(number)
    if known is None:
        row = model.account[number] = {"id": number, "name": name}
        return insert(ACCOUNT, **row)
    what = draw(st.sampled_from(["update", "delete", "move"]))
    if what == "delete":
        return delete(ACCOUNT, **model.account.pop(number))
    target = draw(_IDS) if what == "move" else number
    if target != number and target in model.account:
        target = number
    del model.account[number]
    row = model.account[target] = {"id": target, "name": name}
    return update(ACCOUNT, known, row)


def _transfer(draw: st.DrawFn, model: Model) -> Change:
    key = (draw(_IDS), draw(st.integers(0, 1)))
    known = model.transfer.pop(key, None)
    row = {"tx": key[0], "leg": key[1], "amount": f"{draw(st.integers(-99, 99))}.0000"}
    if known is None:
        model.transfer[key] = row
        return insert(TRANSFER, **row)
    if draw(st.booleans()):
        return delete(TRANSFER, **known)
    model.transfer[key] = row
    return update(TRANSFER, known, row)


def _audit(draw: st.DrawFn, model: Model) -> Change:
    row = {"actor": draw(st.sampled_from(["x", "X"])), "action": draw(st.sampled_from([None, "", "a"]))}
    known = sorted(model.audit)
    if known and draw(st.booleans()):
        before = draw(st.sampled_from(known))
        model.audit -= Counter([before])
        if draw(st.booleans()):
            return delete(AUDIT, **json.loads(before))
        model.audit[text_of(row)] += 1
        return update(AUDIT, json.loads(before), row)
    model.audit[text_of(row)] += 1
    return insert(AUDIT, **row)
