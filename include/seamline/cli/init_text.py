"""The files that `./seamline init` writes: declarations with what was found as comments."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seamline.domain.catalogue import Table
from seamline.domain.server_found import ListedTable
from seamline.spec.fields import WHY_LENGTH_MAX
from seamline.spec.written import text
from seamline.sync.suite_proposal import Observed
from seamline.sync.sync_proposal import ProposedDate, ProposedEntry

_SCHEMA = "# yaml-language-server: $schema=../../schemas/{}.schema.json"
# So many other candidates for a business date are named.
_OTHERS_MAX = 3
_COMMENT_LETTERS = 110


@dataclass(frozen=True, slots=True)
class FoundTable:
    """`written`: how the sync's file names it. `trouble`: why it cannot be carried, with the cure; then there is
    neither `table` nor `entry`."""

    written: str
    listed: ListedTable
    table: Table | None = None
    entry: ProposedEntry | None = None
    trouble: str = ""
    observed: Observed = field(default_factory=Observed)


def source_text(
    name: str, kind: str, *, connection: str, capture: str, database: str, namespace: tuple[str, str] | None = None
) -> str:
    """`capture`: the connection that reads the log, "" for none. `namespace`: the key that says where its tables lie,
    and its value; None where the kind's default is meant."""
    shared = capture == connection
    kept = "log: {max_gb: 20, keep_days: 7}  # how much of its log is kept, and how long. none: nights alone"
    return "\n".join(
        [
            _SCHEMA.format("source"),
            f"source: {name}",
            f"kind: {kind}",
            f"connection: {connection}  # who reads tables",
            *(["# One login for all roles: right for a trial; later give each its own, with less rights."] * shared),
            *([f"capture_connection: {capture}  # who reads the log"] if capture else []),
            *([f"marker_connection: {connection}"] * shared),
            f"database: {text(database)}",
            *([f"{namespace[0]}: {text(namespace[1])}"] if namespace else []),
            kept if capture else "log: none  # nights alone, by a login that may SELECT and nothing more",
            "",
        ]
    )


def destination_text(name: str, kind: str, *, connection: str, namespace_key: str, namespace: str) -> str:
    return "\n".join(
        [
            _SCHEMA.format("destination"),
            f"destination: {name}",
            f"kind: {kind}",
            f"connection: {connection}  # who makes the tables and owns them",
            "# writer_connection: …  # another login that may write rows and make no table, for the stream",
            f"{namespace_key}: {text(namespace)}  # live tables; cuts lie in {namespace}_cut",
            "",
        ]
    )


def sync_text(
    name: str, source: str, destination: str, found: Sequence[FoundTable], *, time_zone: str, suite: str
) -> str:
    """`suite`: the name of a suite of expectations, "" for none."""
    dated = any(one.entry is not None and one.entry.date is not None for one in found)
    totals = [line for one in found for line in _total_lines(one)]
    return "\n".join(
        [
            _SCHEMA.format("sync"),
            "# Proposed by the catalogue and some rows. Read it: which date is the business date, and which amounts a",
            "# report shall add up, only their owner knows.",
            f"sync: {name}",
            f"source: {source}",
            f"destinations: [{destination}]",
            "tables:",
            *(line for one in found for line in _table_lines(one)),
            "guarantee: exactly_once",
            "nightly:",
            f"  timezone: {text(time_zone)}  # business dates begin and end at midnight there",
            '  run_at: "00:30"  # of the day after',
            "  # calendars: [cn_bank]  # business days alone: docs/how-to/schedule-on-a-calendar.md",
            *([] if dated else ["  # No table has a business date, so each cut holds the tables whole."]),
            "reconcile:",
            *(["  control_totals:", *totals] if totals else ["  # No column looks like an amount: no control totals."]),
            *([f"  expectations: {suite}"] if suite else []),
            "  on_break: ask  # a person signs for what is not clean",
            "",
        ]
    )


def _table_lines(found: FoundTable) -> Iterator[str]:
    yield f"  # {_size(found)}"
    written = text(found.written)
    if found.trouble:
        why = found.trouble
        if len(why) > WHY_LENGTH_MAX:
            # A reason has a bound, and what can be done must not be lost by it.
            yield from (f"  # {line}" for line in textwrap.wrap(why, _COMMENT_LETTERS))
            why = f"{why[: WHY_LENGTH_MAX - 1]}…"
        yield f"  - {{name: {written}, parked: {text(why)}}}"
        return
    assert found.entry is not None
    if found.entry.date is None:
        yield f"  - {written}"
    else:
        date = found.entry.date
        yield f"  - {{name: {written}, business_date: {{column: {text(date.column)}, as: {date.holds}}}}}"
    others = ", ".join(map(_shown_date, found.entry.others[:_OTHERS_MAX]))
    if others:
        yield f"    # could be the business date{'' if found.entry.date is None else ' too'}: {others}"


def _size(found: FoundTable) -> str:
    rows = "unknown rows" if found.listed.rows is None else f"about {found.listed.rows:,} rows"
    size = "" if found.listed.size is None else f", {_bytes(found.listed.size)}"
    if found.table is None:
        return f"{rows}{size}: it cannot be carried as it is"
    key = f"key {', '.join(found.table.key)}" if found.table.key else "no key: kept exact as a multiset of rows"
    date = found.entry.date if found.entry else None
    spread = f"; {date.column} from {date.least} to {date.greatest}" if date and date.least else ""
    return f"{rows}{size}; {key}{spread}"


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def _shown_date(date: ProposedDate) -> str:
    spread = f", {date.least} to {date.greatest}" if date.least else ""
    return f"{date.column} ({date.holds}{spread})"


def _total_lines(found: FoundTable) -> Iterator[str]:
    if found.entry is None or found.table is None:
        return
    by = f", by: [{', '.join(map(text, found.entry.by))}]" if found.entry.by else ""
    for column in found.entry.sums:
        yield f"    - {{table: {text(found.table.name)}, sum: {text(column)}{by}}}"
