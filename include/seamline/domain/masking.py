"""Values of sensitive columns are masked wherever documents are made for showing. Pure; what is stored stays as it is.

`masked` takes whatever the platform database answers, and gives it back with every value of such a column replaced: in
rows that differ, in their keys, and in the keys of rows that break a rule. So whoever writes a report, a file or a page
cannot forget it. A break keeps its identity, which is made before its key is masked.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from seamline.domain.break_id import break_id
from seamline.domain.cut_state import CutState, FailedCheck
from seamline.domain.late_posting import LatePosting
from seamline.domain.repair import RepairRow, Texts
from seamline.domain.runs import Reconciliation
from seamline.domain.self_test import SELF_TEST
from seamline.domain.verdict import Break, BreakType

MASK = "••••"
# In the destination, where its value is another one than the source's.
DIFFERS = f"{MASK} (differs)"
# What checks say in numbers of rows: it holds no value.
_COUNTS = re.compile(
    r"[\d,]+( of [\d,]+)? rows? do(es)? not meet it|((element_count|unexpected_count) \d+(, )?)+|\d+ groups?|"
)
# Of these the text without a column is no value of a row.
_IN_WORDS = (BreakType.SCHEMA, BreakType.FINDING, BreakType.SYSTEMATIC)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Hidden:
    """The sensitive columns of a sync: of each declared table those that are. None: nothing says which are, so all
    are."""

    tables: Mapping[str, frozenset[str]] | None = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        return self.tables is None or any(self.tables.values())

    def hides(self, table: str, column: str) -> bool:
        """Of a table that is not declared any more, every column, where the sync has sensitive ones at all."""
        if self.tables is None or (self.is_any and table not in self.tables):
            return True
        return column in self.tables.get(table, ())

    def is_about(self, table: str) -> bool:
        """Whether the table has, or may have, such a column."""
        if self.tables is None or (self.is_any and table not in self.tables):
            return True
        return bool(self.tables.get(table))


NOTHING_SAYS = Hidden(None)
# Sync → what is hidden of it.
HiddenOf = Callable[[str], Hidden]


def masked(value: ValueT, hidden_of: HiddenOf, sync: str = "") -> ValueT:
    """The value, and everything in it, as it may be shown. `sync`: what it is about where it does not say so itself."""
    made: ValueT = _shown(value, hidden_of, sync, "")
    return made


def masked_key(key: str, hidden: Hidden, table: str) -> str:
    """A key is JSON of column and value. What is none, as the text of a finding, is masked whole."""
    if not key or not hidden.is_about(table):
        return key
    try:
        named = json.loads(key)
    except ValueError:
        return MASK
    if not isinstance(named, dict):
        return MASK
    shown = {name: MASK if value is not None and hidden.hides(table, name) else value for name, value in named.items()}
    return key if shown == named else json.dumps(shown, ensure_ascii=False)


def masked_detail(detail: str, hidden: Hidden, table: str) -> str:
    """What a check says of a table: numbers of rows only, where another text may hold a value."""
    return MASK if hidden.is_about(table) and not _COUNTS.fullmatch(detail) else detail


def masked_break(found: Break, hidden: Hidden, *, identity: str) -> Break:
    """`identity`: that of the break as it is stored; "" where nobody asks the masked one for it."""
    if not hidden.is_about(found.table):
        return found
    source, destination = found.source, found.destination
    return replace(
        found,
        key=masked_key(found.key, hidden, found.table),
        source=_side(found, source, None, hidden),
        destination=_side(found, destination, source, hidden),
        beside=_side(found, found.beside, None, hidden),
        identity=identity,
    )


def masked_repair_row(row: RepairRow, hidden: Hidden) -> RepairRow:
    """For showing alone: nothing is repaired by it."""
    if not hidden.is_about(row.table):
        return row

    return replace(
        row,
        key=MASK,
        named=masked_key(row.named, hidden, row.table),
        source=_texts(row, row.source, None, hidden),
        destination=_texts(row, row.destination, row.source, hidden),
        why=MASK if row.why else "",
    )


def _texts(row: RepairRow, values: Texts | None, beside: Texts | None, hidden: Hidden) -> Texts | None:
    if values is None:
        return None
    shown = dict(values)
    for name, text in values.items():
        if text is not None and hidden.hides(row.table, name):
            shown[name] = DIFFERS if beside is not None and beside.get(name) != text else MASK
    return shown


def _side(
    found: Break, values: dict[str, str | None] | None, beside: dict[str, str | None] | None, hidden: Hidden
) -> dict[str, str | None] | None:
    if values is None:
        return None
    shown = dict(values)
    for name, value in values.items():
        is_words = not name and found.type in _IN_WORDS
        if value is not None and not is_words and hidden.hides(found.table, name):
            other = (beside or {}).get(name)
            shown[name] = DIFFERS if other is not None and other != value else MASK
    return shown


def _shown(value: Any, hidden_of: HiddenOf, sync: str, destination: str) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, CutState | Reconciliation):
        sync, destination = value.sync, value.destination
        if not hidden_of(sync).is_any:
            return value
    if isinstance(value, tuple | list | Mapping):
        return _all_of(value, hidden_of, sync, destination)
    if isinstance(value, Break):
        identity = break_id(sync, destination, value) if destination else value.identity
        return masked_break(value, hidden_of(sync), identity=identity)
    if isinstance(value, LatePosting):
        return replace(value, key=masked_key(value.key, hidden_of(sync), value.table))
    if isinstance(value, FailedCheck):
        return _check(value, hidden_of(sync))
    return _fields(value, hidden_of, sync, destination)


def _all_of(value: Any, hidden_of: HiddenOf, sync: str, destination: str) -> Any:
    """The very same where nothing in it is masked."""
    if isinstance(value, Mapping):
        named = {name: _shown(one, hidden_of, sync, destination) for name, one in value.items()}
        return value if all(map(_is_same, named.values(), value.values())) else named
    made = [_shown(one, hidden_of, sync, destination) for one in value]
    return value if all(map(_is_same, made, value)) else type(value)(made)


def _fields(value: Any, hidden_of: HiddenOf, sync: str, destination: str) -> Any:
    if not is_dataclass(value) or isinstance(value, type):
        return value
    before = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    changed = {
        name: now for name, one in before.items() if (now := _shown(one, hidden_of, sync, destination)) is not one
    }
    if isinstance(value, Reconciliation):
        changed["evidence"] = _evidence(value.evidence)
    # A break that the platform database has read with its identity.
    if isinstance(found := changed.get("found"), Break) and "break_id" in before:
        changed["found"] = replace(found, identity=before["break_id"])
    made = replace(value, **changed) if changed else value
    return _group(made, hidden_of(sync)) if {"table", "group"} <= before.keys() else made


def _is_same(one: object, other: object) -> bool:
    return one is other


def _group(value: Any, hidden: Hidden) -> Any:
    """Declarations let no group be of a sensitive column. Where nothing says which are, none is shown."""
    is_known = hidden.tables is not None and (not hidden.is_any or value.table in hidden.tables)
    return value if is_known or not value.group else replace(value, group=(MASK,) * len(value.group))


def _check(check: FailedCheck, hidden: Hidden) -> FailedCheck:
    if not hidden.is_about(check.on):
        return check
    keys = tuple(masked_key(key, hidden, check.on) for key in check.keys)
    return replace(check, keys=keys, detail=masked_detail(check.detail, hidden, check.on))


def _evidence(evidence: Mapping[str, Any]) -> Mapping[str, Any]:
    """The self-test names rows by their keys."""
    tested = evidence.get(SELF_TEST)
    if not isinstance(tested, Mapping):
        return evidence
    words = {
        name: [re.sub(r"\{.*\}", f"{{{MASK}}}", str(one), flags=re.DOTALL) for one in tested.get(name) or ()]
        for name in ("missed", "others")
        if name in tested
    }
    return {**evidence, SELF_TEST: {**tested, **words}}
