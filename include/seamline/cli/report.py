"""The verdicts of a sync as text for a terminal: verdict first, then numbers, then detail. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from seamline.domain.date_before import late_in_words
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import ControlTotal, TableVerdict, Verdict
from seamline.ports import StreamReport

BREAKS_SHOWN = 5
# Streams report every few seconds: what is older may not be so any more.
HEARD_S = 10.0


def is_green(reconciliations: Iterable[Reconciliation]) -> bool:
    """Whether every table is MATCH, or is parked, or is NOT_RUN in the cut of a date and tells why (one that is read
    whole has no history), and at least one is MATCH. Of nothing: no."""
    found = list(reconciliations)
    is_any_match = any(table.verdict is Verdict.MATCH for one in found for table in one.tables)
    return is_any_match and all(_is_fine(one) for one in found)


def _is_fine(found: Reconciliation) -> bool:
    """Parked tables are no blemish of the others, but where there are no others nothing is known."""
    guaranteed = [table for table in found.tables if not table.is_parked]
    is_cut = found.scope is Scope.CUT
    return bool(guaranteed) and all(
        table.verdict is Verdict.MATCH or (is_cut and table.verdict is Verdict.NOT_RUN and bool(table.reason))
        for table in guaranteed
    )


def render(reconciliations: Sequence[Reconciliation], streams: Sequence[StreamReport]) -> str:
    """The report of one sync: the live tables, then its business dates from the newest on, then its streams."""
    ordered = sorted(
        reconciliations,
        key=lambda r: (r.scope is not Scope.LIVE, -(r.business_date.toordinal() if r.business_date else 0)),
    )
    blocks = ["\n".join(_reconciliation(reconciliation)) for reconciliation in ordered]
    if not blocks:
        blocks = ["NOT_RUN  nothing was reconciled yet"]
    if streams:
        blocks.append("\n".join(stream_line(report) for report in streams))
    return "\n\n".join(blocks)


def stream_line(report: StreamReport) -> str:
    behind = max(0, report.log_end_offset - report.next_offset)
    text = f"stream {report.stream}: {report.state}"
    if report.epoch:
        # What the host says of a stream without a worker has no figures.
        text += f", lag {report.lag_s:.1f} s ({behind:,} records), epoch {report.epoch}"
    if report.age_s >= HEARD_S:
        text += f", heard {report.age_s:.0f} s ago"
    if report.findings:
        text += f", {report.findings:,} FINDINGS"
    return f"{text}\n  {report.error}" if report.error else text


def _reconciliation(reconciliation: Reconciliation) -> Iterator[str]:
    title = "live tables" if reconciliation.scope is Scope.LIVE else f"business date {reconciliation.business_date}"
    if reconciliation.is_partial:
        title += ", partial"
    yield f"{reconciliation.verdict:<12}  {reconciliation.sync} → {reconciliation.destination}, {title}"
    yield f"{'':<12}  at {reconciliation.position or 'no position'}{_committed(reconciliation)}"
    if reconciliation.signed_by:
        yield f"{'':<12}  signed by {reconciliation.signed_by}"
    width = max((len(table.table) for table in reconciliation.tables), default=0)
    for table in reconciliation.tables:
        yield from _table(table, width)
    for line in late_in_words(reconciliation.evidence):
        yield f"  {'LATE':<12}{line}"


def _committed(reconciliation: Reconciliation) -> str:
    moment = reconciliation.position_time
    return f", committed {moment:%Y-%m-%d %H:%M:%S %Z}" if moment else ""


def _table(table: TableVerdict, width: int) -> Iterator[str]:
    line = f"  {table.verdict:<12}{table.table:<{width}}  {_rows(table)}"
    yield f"{line}  {table.reason}".rstrip()
    margin = " " * (width + 16)
    for total in table.totals:
        yield f"{margin}{_total(total)}"
    for found in table.breaks[:BREAKS_SHOWN]:
        yield f"{margin}{found.type}: {found.key}{_values(found.source, found.destination)}"
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
