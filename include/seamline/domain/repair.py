"""A repair of live tables: rows of one destination that are to be made what their source has.

It is planned from what a comparison of live tables has found, approved by a second person, and applied where source and
destination stand at one position. What it may do to a row is decided here, by both rows as they are then.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from seamline.domain.audit import canonical_json, sha256_of
from seamline.domain.canonical import exact_columns, floats_agree, inexact_columns, named_text, row_of_texts
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.verdict import TableVerdict, Verdict

# Canonical texts of a row by column; None: that side has no such row.
Texts = Mapping[str, str | None]
# A plan may always change this many rows of a table: of a small one a share says nothing.
ROWS_ALWAYS = 20
# How the name of a repair begins that no run of Airflow has planned.
BY_COMMAND_LINE = "repair-"
_BY_COMMAND_LINE = re.compile(rf"{BY_COMMAND_LINE}\d{{8}}T\d{{6}}-[0-9a-f]{{4}}")
AGAIN = "load the table again: run the DAG `<sync>__tables` with its name in `again`"


def is_by_command_line(name: str) -> bool:
    """Whether `./seamline repair` has made it. A run of Airflow may be named nearly so."""
    return bool(_BY_COMMAND_LINE.fullmatch(name))


class RowAction(StrEnum):
    """What is done to the destination's row."""

    UPSERT = "upsert"
    DELETE = "delete"


class RowState(StrEnum):
    """What became of a row that differed."""

    PLANNED = "planned"
    APPLYING = "applying"  # chosen under a hold; whether it was committed is not written down yet
    APPLIED = "applied"
    EQUAL = "equal by now"
    SOURCE_MOVED = "left to the stream: the source has changed the row since"
    DESTINATION_MOVED = "left: the destination's row has changed since"
    UNFIT = "left: no repair can write this row"


class RepairState(StrEnum):
    PLANNED = "planned"
    APPROVED = "approved"
    APPLYING = "applying"  # an attempt has begun; it may have been committed
    APPLIED = "applied"


class RootCause(StrEnum):
    """Why the destination's rows were not what they should be."""

    OUTSIDE = "outside"  # somebody else wrote the destination's tables
    RESTORE = "restore"  # the destination was restored or failed over
    SOURCE = "source"  # the source was changed past its log
    DEFECT = "defect"  # our own
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RepairLimits:
    """Of one table, at most: rows, and their share of the larger side's rows."""

    rows_max: int = 1_000
    rows_max_share: float = 0.001

    def refusal(self, found: TableVerdict) -> str:
        """Why so many differences are not repaired one by one; "" where they may be."""
        rows = found.breaks_total
        of = max(found.source_rows or 0, found.destination_rows or 0)
        allowed = max(ROWS_ALWAYS, int(self.rows_max_share * of))
        if rows > min(self.rows_max, allowed):
            return (
                f"{rows:,} of {of:,} rows differ, and at most {min(self.rows_max, allowed):,} are repaired one by one"
            )
        return ""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One key. `key` is its canonical text, `named` the same for people, as breaks have it. `source` and `destination`:
    both rows as they were planned, at one position. `action` is None where the plan leaves the row alone."""

    table: str
    key: str
    named: str
    action: RowAction | None
    source: Texts | None
    destination: Texts | None
    state: RowState = RowState.PLANNED
    why: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """`run_id` is the repair's own, `compared` that of the comparison it was planned from. `position`: at which both
    sides were read for the plan. `refused`: tables that it leaves out, with the reason. `why`: in words of who has
    asked for the plan; `reason`: of who has approved it."""

    run_id: str
    sync: str
    destination: str
    compared: str
    position: str
    rows: tuple[RepairRow, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    state: RepairState = RepairState.PLANNED
    planned_by: str = ""
    planned_at: datetime | None = None
    approved_by: str = ""
    approved_at: datetime | None = None
    cause: RootCause | None = None
    reason: str = ""
    applied_at: datetime | None = None
    applied_position: str = ""
    verdict: Verdict | None = None
    why: str = ""

    @property
    def planned(self) -> tuple[RepairRow, ...]:
        """Rows that the plan changes."""
        return tuple(row for row in self.rows if row.action is not None)

    @property
    def hash(self) -> str:
        """SHA-256 of what is approved: the rows with both their values, and what is done to them."""
        document = {
            "compared": self.compared,
            "destination": self.destination,
            "position": self.position,
            "rows": [_row_json(row) for row in self.planned],
            "sync": self.sync,
        }
        return sha256_of(canonical_json(document))


def _row_json(row: RepairRow) -> dict[str, object]:
    return {
        "action": row.action,
        "destination": row.destination,
        "key": row.key,
        "source": row.source,
        "table": row.table,
    }


def counted(rows: Sequence[RepairRow]) -> dict[str, dict[str, int]]:
    """How many rows of each table are in which state: what may leave the platform database of them."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        of_table = found.setdefault(row.table, {})
        of_table[row.state.value] = of_table.get(row.state.value, 0) + 1
    return found


def is_same_row(table: Table, one: Texts | None, other: Texts | None) -> bool:
    """Whether both sides hold the row alike, as a comparison judges it; also where neither has it."""
    if one is None or other is None:
        return one is other
    exact = all(one[column.name] == other[column.name] for column in exact_columns(table))
    return exact and all(floats_agree(c.kind, one[c.name], other[c.name]) for c in inexact_columns(table))


def is_untouched(planned: Texts | None, now: Texts | None) -> bool:
    """Whether one side prints the row just as it did when the repair was planned."""
    return (planned is None) == (now is None) and dict(planned or {}) == dict(now or {})


def judged(table: Table, row: RepairRow, source: Texts | None, destination: Texts | None) -> RowState:
    """What an attempt does to a planned row, both sides of which stand at one position. `APPLYING`: change it.

    A row that an earlier attempt has chosen, and that is as it was approved, was changed by that attempt: its answer
    was lost.
    """
    if is_same_row(table, source, destination):
        was_chosen = row.state in (RowState.APPLYING, RowState.APPLIED)
        return RowState.APPLIED if was_chosen and is_untouched(row.source, source) else RowState.EQUAL
    if not is_untouched(row.source, source):
        return RowState.SOURCE_MOVED
    if not is_untouched(row.destination, destination):
        return RowState.DESTINATION_MOVED
    return RowState.APPLYING


# ---- a break's key, back to its canonical text ----------------------------------------------------------------------


def key_of(table: Table, named: str) -> str | None:
    """The canonical key text of a break's `key`; None where it names no row of the table's key."""
    try:
        values = json.loads(named)
    except ValueError:
        return None
    if not isinstance(values, dict) or values.keys() != set(table.key):
        return None
    texts = {column.name: _canonical(column, values[column.name]) for column in table.key_columns}
    # What is not exactly turned back is not guessed.
    in_words = named_text(table.key_columns, [texts[column.name] for column in table.key_columns])
    return row_of_texts(table.key_columns, texts) if in_words == named else None


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (as canonical texts count)


def _canonical(column: Column, readable: str | None) -> str | None:
    if readable is None:
        return None
    try:
        if column.kind in (Kind.DATETIME, Kind.INSTANT):
            since = datetime.fromisoformat(readable.removesuffix(" UTC")) - _EPOCH
            return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
        if column.kind in (Kind.TIME, Kind.TIME_OF_DAY):
            hours, minutes, seconds = readable.removeprefix("-").split(":")
            whole, _, fraction = seconds.partition(".")
            micros = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction)
            return f"{'-' if readable.startswith('-') else ''}{micros}"
    except (ValueError, TypeError):
        # As an infinite moment: its text is its own.
        return readable
    return readable
