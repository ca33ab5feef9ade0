"""The verdicts of a sync as text for a terminal: verdict first, then numbers, then detail."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from types import MappingProxyType

from seamline.cli.cuts import counted, missing_lines
from seamline.cli.seen import Seen, SyncSeen
from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import CutState, Headline, failure_of, of_live
from seamline.domain.date_before import late_in_words
from seamline.domain.doubted import altered_in_words
from seamline.domain.ledger import StreamId
from seamline.domain.row_transform import transforms_in_words
from seamline.domain.runs import Reconciliation
from seamline.domain.self_test import self_test_in_words
from seamline.domain.sign_off import SignOff
from seamline.domain.verdict import ControlTotal, TableVerdict, nothing_compared, shared_reasons
from seamline.domain.witness import third_witness_in_words
from seamline.report.words import visible
from seamline.sync.stream_state import StreamState
from seamline.sync.under_way import Note

BREAKS_SHOWN = 5
# As wide as the longest headline and a gap.
_VERDICT = max(len(word) for word in Headline) + 2


def whole(seen: Seen) -> str:
    """Every sync, then streams that are declared no more, then the alarms."""
    return "".join([*(_sync(one, seen) for one in seen.syncs), *_undeclared(seen), *_alarms(seen)])


def _undeclared(seen: Seen) -> Iterator[str]:
    for mark in seen.streams.undeclared:
        yield f"\n{mark.stream}: {mark.in_words()}\n"


def _sync(one: SyncSeen, seen: Seen) -> str:
    mistakes = f"{one.mistakes}\n" if one.mistakes else ""
    text = render(one.cuts, one.live, one.streams, findings=seen.streams.findings, zone=one.zone)
    behind = f"{signed(one.sign_offs)}{lacking(one)}"
    return f"\n{one.name}: {one.state}, {one.word}\n{noted(one.notes)}{mistakes}{text}\n{behind}"


def _alarms(seen: Seen) -> Iterator[str]:
    for alarm in seen.streams.alarms:
        since = moment_in_words(alarm.raised_at, seen.zone_of(alarm))
        yield f"\nALARM {alarm.kind} {alarm.subject} since {since}: {alarm.message}\n"
    for alarm in seen.streams.over:
        yield f"\nALARM {alarm.kind} {alarm.subject} is over; the next look at the streams ends it\n"


def is_green(cuts: Iterable[CutState], live: Iterable[Reconciliation]) -> bool:
    """Whether every cut is clean and published, and every live table MATCH; those that are parked, or left out of a cut
    for a reason, make it partial and not wrong. Of nothing: no."""
    words = [*(one.headline for one in cuts), *(of_live(one) for one in live)]
    return bool(words) and all(word in (Headline.MATCH, Headline.PARTIAL) for word in words)


def render(
    cuts: Sequence[CutState],
    live: Sequence[Reconciliation],
    streams: Sequence[StreamState] = (),
    *,
    findings: Mapping[StreamId, int] = MappingProxyType({}),
    zone: tzinfo = UTC,
) -> str:
    """The report of one sync: the live tables, then its business dates from the newest on, then its streams."""
    blocks = [_text(_live(one, zone)) for one in live]
    blocks += [_text(_cut(one, zone)) for one in sorted(cuts, key=lambda one: one.business_date, reverse=True)]
    if not blocks:
        blocks = [f"{Headline.NOT_RUN:<{_VERDICT}}nothing was reconciled yet"]
    if streams:
        blocks.append(_text(_stream(state, findings.get(state.stream, 0), zone) for state in streams))
    return "\n\n".join(blocks)


def _text(lines: Iterable[str]) -> str:
    """No value of a table moves the cursor of who reads it."""
    return "\n".join(visible(one) for line in lines for one in line.split("\n"))


def noted(notes: Iterable[Note]) -> str:
    """What goes on in a sync, and what waits for its first load: a line each."""
    return "".join(f"{one.word:<{_VERDICT}}{one.text}\n" for one in notes)


def _stream(state: StreamState, findings: int, zone: tzinfo) -> str:
    found = f"\n  {findings:,} FINDINGS" if findings else ""
    return f"stream {state.stream}: {state.in_words(zone)}{found}"


def _live(found: Reconciliation, zone: tzinfo) -> Iterator[str]:
    yield _title(of_live(found), found.sync, found.destination, "live tables", is_partial=found.is_partial)
    for line in altered_in_words(found):
        yield f"{'':<{_VERDICT}}{line}"
    if failure := failure_of(found.evidence):
        for line in failure.lines(zone):
            yield f"{'':<{_VERDICT}}{line}"
        return
    yield from _compared(found, zone)


def _cut(state: CutState, zone: tzinfo) -> Iterator[str]:
    what = f"business date {state.business_date}"
    yield _title(state.shown, state.sync, state.destination, what, is_partial=state.partial)
    if state.is_green:
        yield f"{'':<{_VERDICT}}{' · '.join(state.lines(zone))}"
    else:
        for line in state.lines(zone):
            yield f"{'':<{_VERDICT}}{line}"
    if state.found:
        yield from _compared(state.found, zone)


def signed(sign_offs: Sequence[SignOff]) -> str:
    """What waits for a signature, and what came late for one; "" where nothing does."""
    waiting = [one.business_date for one in sign_offs if one.waits]
    cuts = "1 published cut waits" if len(waiting) == 1 else f"{len(waiting):,} published cuts wait"
    lines = [f"{cuts} for a signature, since business date {min(waiting)}"] if waiting else []
    for one in sign_offs:
        about = f"{one.business_date} in {one.destination}, version {one.version}"
        lines += [f"LATE for a signed date, {about}: {line}" for line in one.late_in_words if one.is_overtaken]
    return "".join(f"{line}\n" for line in lines)


def lacking(one: SyncSeen) -> str:
    """The business dates without a published cut, each with why; "" where there is none."""
    now = datetime.now(UTC)
    if not one.missing:
        return ""
    lines = (visible(line) for line in "".join(missing_lines(one.missing, now, one.zone)).splitlines())
    return "\n".join([counted(one.missing), *lines, ""])


def _title(headline: Headline, sync: str, destination: str, what: str, *, is_partial: bool) -> str:
    return f"{headline:<{_VERDICT}}{sync} → {destination}, {what}{', partial' if is_partial else ''}"


def _compared(found: Reconciliation, zone: tzinfo) -> Iterator[str]:
    moment = found.position_time
    committed = f", {found.moment} {moment_in_words(moment, zone)}" if moment else ""
    compared = f"compared {moment_in_words(found.ended_at, zone)}"
    yield f"{'':<{_VERDICT}}at {found.position or 'no position'}{committed}; {compared}"
    if hollow := nothing_compared(found.tables):
        yield f"{'':<{_VERDICT}}{hollow}"
    width = max((len(table.table) for table in found.tables), default=0)
    transformed = transforms_in_words(found.evidence)
    shared = shared_reasons(found.tables)
    for table in found.tables:
        shown = replace(table, reason="as said below") if table.reason in shared else table
        yield from _table(shown, width, transformed.get(table.table, ""))
    for reason, names in shared.items():
        yield f"{'':<{_VERDICT}}{', '.join(names)}: {reason}"
    for line in late_in_words(found.evidence):
        yield f"  {'LATE':<{_VERDICT}}{line}"
    for line in third_witness_in_words(found.evidence, zone):
        yield f"{'':<{_VERDICT}}third witness: {line}"
    for line in self_test_in_words(found.evidence):
        yield f"{'':<{_VERDICT}}self-test: {line}"


def _table(table: TableVerdict, width: int, transformed: str) -> Iterator[str]:
    line = f"  {table.verdict:<{_VERDICT}}{table.table:<{width}}  {_rows(table)}"
    how = f"  {transformed}" if transformed else ""
    yield f"{line}{how}  {table.reason}".rstrip()
    margin = " " * (width + 4 + _VERDICT)
    for total in table.totals:
        yield f"{margin}{_total(total)}"
    for one in table.breaks[:BREAKS_SHOWN]:
        yield f"{margin}{one.type}: {one.key}{_values(one.source, one.destination)}"
        if one.witness:
            yield f"{margin}  {one.witness.in_words}"
    hidden = table.breaks_total - min(len(table.breaks), BREAKS_SHOWN)
    if hidden > 0:
        yield f"{margin}and {hidden:,} more"


def _rows(table: TableVerdict) -> str:
    if table.source_rows is None or table.destination_rows is None:
        return ""
    if table.source_rows == table.destination_rows:
        return f"{table.source_rows:,} rows on both sides"
    return f"{table.source_rows:,} rows in the source, {table.destination_rows:,} in the destination"


def _total(total: ControlTotal) -> str:
    group = " ".join(total.group) or "all"
    name = f"{total.column} " if total.column else ""
    if total.is_equal and not total.column:
        return f"{group:<5} {total.source_rows:,} rows on both sides"
    if total.is_equal:
        return f"{group:<5} {name}{_number(total.source_sum)} on both sides, {total.source_rows:,} rows"
    return (
        f"{group:<5} {name}{_number(total.source_sum)} in the source ≠ {_number(total.destination_sum)} in the "
        f"destination, {total.source_rows:,} and {total.destination_rows:,} rows"
    )


def _number(value: Decimal | None) -> str:
    return "none" if value is None else f"{value:,}"


def _values(source: dict[str, str | None] | None, destination: dict[str, str | None] | None) -> str:
    if source is None or destination is None:
        return ""
    return "".join(f"; {name}: {source[name]} → {destination.get(name)}" for name in source)
