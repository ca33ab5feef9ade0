"""What a report says, in the order in which people ask: verdict, header, completeness, totals, breaks, checks,
decision, versions. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from seamline.domain import differences
from seamline.domain.baseline import repeated_in_words
from seamline.domain.break_age import AgedAmount, band_in_words
from seamline.domain.break_id import break_id
from seamline.domain.break_work import ALL_SETTLED, Work, WorkState, is_all_settled
from seamline.domain.cut_state import CutState, FailedCheck, Headline, failure_of, of_live, worst_headline
from seamline.domain.date_before import late_in_words
from seamline.domain.doubted import altered_in_words
from seamline.domain.level import achieved_in_words, level_of
from seamline.domain.log_patch import log_between_in_words
from seamline.domain.made_from import by_log_in_words, day_slice_in_words, taken_over_in_words
from seamline.domain.row_transform import transforms_in_words
from seamline.domain.runs import CODE, Moment, Reconciliation
from seamline.domain.self_test import is_passed, self_test_in_words
from seamline.domain.separate import separate_in_words
from seamline.domain.sign_off import SignAct, SignOff, SignState, by_take
from seamline.domain.staged_cut import without_rows_in_words
from seamline.domain.verdict import (
    SEVERITY,
    Break,
    BreakType,
    ControlTotal,
    TableVerdict,
    Verdict,
    nothing_compared,
    of_guaranteed,
)
from seamline.domain.witness import third_witness_in_words
from seamline.report.blocks import Block, Cell, Report, Row
from seamline.report.worked import NOTHING, Worked
from seamline.sync import headline

LIVE = "live tables"
NO_NUMBER = "no number"
# In front of the columns of every block; the finished report has them only where its rows differ in them.
_ABOUT = ("business date", "destination")


@dataclass(frozen=True, slots=True)
class _Part:
    """One take of a cut in one destination, or one comparison of the live tables."""

    about: tuple[Cell, Cell]
    found: Reconciliation | None
    cut: CutState | None = None

    @property
    def tables(self) -> list[TableVerdict]:
        """The worst first."""
        tables = self.found.tables if self.found else ()
        return sorted(tables, key=lambda table: (-SEVERITY.index(table.verdict), table.table))


def report_of(
    sync: str,
    cuts: Sequence[CutState],
    live: Sequence[Reconciliation] = (),
    *,
    zone: tzinfo,
    about: date | None = None,
    takes: Sequence[CutState] = (),
    guarantees: Mapping[str, str] = MappingProxyType({}),
    levels: Mapping[str, str] = MappingProxyType({}),
    worked: Worked = NOTHING,
    sign_offs: Sequence[SignOff] = (),
) -> Report:
    """The report about these takes of cuts and comparisons of live tables.

    `about`: the one date that it is about, also where nothing is known of that. `takes`: those that its list of
    versions shows; left out: `cuts`. `guarantees`: run → what the sync promised, and `levels`: destination → what
    readers may rely on there, where that is known. `worked`: what people have done about breaks. `sign_offs`: of
    published versions. What is not stored as it was recorded is said first. Of nothing at all: NOT_RUN, no block.
    """
    parts = [_Part((one.business_date, one.destination), one.found, one) for one in cuts]
    parts += [_Part((LIVE, one.destination), one) for one in live]
    words = [*(one.headline for one in cuts), *(of_live(one) for one in live)]
    blocks = (
        replace(_block("Altered", ("what",), (row for part in parts for row in _altered(part))), is_whole=True),
        _block("Report", _HEADER, (_header(part, guarantees, levels) for part in parts)),
        replace(
            _block("Notes", ("note",), (row for part in parts for row in _notes(part, zone, worked.works))),
            is_whole=True,
        ),
        _completeness(parts),
        _block("Control totals", _TOTALS, (row for part in parts for row in _totals(part))),
        _block("Differences by group", _GROUPS, (row for part in parts for row in _groups(part))),
        _breaks_by_kind(parts),
        _block("Breaks by state", ("state", "breaks"), (row for part in parts for row in _states(part, worked.works))),
        _block("Breaks by age", _AGES, (row for part in parts for row in _ages(part, worked))),
        _block("Tolerances", _TOLERANCES, (row for part in parts for row in _absorbed(part, worked, zone))),
        _block("Breaks", _BREAKS, (row for part in parts for row in _breaks(part))),
        _block("Third witness", _WITNESSES, (row for part in parts for row in _witnesses(part))),
        _block("Work on breaks", _WORK, (row for part in parts for row in _work(part, worked.works))),
        _block("Checks", _CHECKS, (row for part in parts for row in _checks(part))),
        _block("Decision", _DECISIONS, (row for part in parts for row in _decision(part))),
        _block("Sign-off", _SIGN_OFFS, (row for part in parts for row in _sign_off(part, by_take(sign_offs)))),
        _block("Versions", _VERSIONS, (_version(one, zone) for one in takes or cuts)),
    )
    of = {str(about)} if about else {str(part.about[0]) for part in parts}
    return Report(
        subject=f"{sync}, {of.pop()}" if len(of) == 1 else sync,
        verdict=worst_headline(words) if words else Headline.NOT_RUN,
        blocks=tuple(_as_shown(block, parts) for block in blocks if block.rows),
        zone=zone,
        at=max((part.found.ended_at for part in parts if part.found), default=None),
    )


def break_cells(found: Break) -> Iterator[tuple[str, str, str, Cell]]:
    """Column, value in the source, value in the destination, and their difference where both are numbers.

    Of a row that both sides have: one for each column that differs, then what both have beside an amount. Of one that a
    side lacks: one in all, whose column is "" and whose value holds all that is kept of the row.
    """
    source, destination = found.source, found.destination
    if source is None or destination is None:
        yield "", _row_in_words(source), _row_in_words(destination), None
        return
    for name in dict.fromkeys((*source, *destination)):
        mine, theirs = source.get(name), destination.get(name)
        yield name, _value_in_words(mine), _value_in_words(theirs), differences.delta(mine, theirs)
    for name, value in (found.beside or {}).items():
        yield name, _value_in_words(value), _value_in_words(value), None


def _value_in_words(value: str | None) -> str:
    """NULL as it is; a text that reads NULL in quotes."""
    if value is None:
        return "NULL"
    return f'"{value}"' if value == "NULL" else value


def _row_in_words(values: Mapping[str, str | None] | None) -> str:
    named = [(f"{name}: " if name else "", _value_in_words(value)) for name, value in (values or {}).items()]
    return "; ".join(f"{name}{value}" for name, value in named)


def _block(title: str, columns: Sequence[str], rows: Iterator[Row], totals: Sequence[Cell] = ()) -> Block:
    return Block(title, (*_ABOUT, *columns), tuple(rows), tuple(totals))


def _as_shown(block: Block, parts: Sequence[_Part]) -> Block:
    """Without what is the same in all its rows; the header says it."""
    if block.title == "Report":
        return replace(block, is_record=True)
    kept = [place for place in range(len(_ABOUT)) if len({part.about[place] for part in parts}) > 1]
    kept += range(len(_ABOUT), len(block.columns))
    return replace(
        block,
        columns=tuple(block.columns[place] for place in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[place] for place in kept)) for row in block.rows),
        totals=tuple(block.totals[place] for place in kept) if block.totals else (),
    )


_HEADER = (
    "verdict", "compared", "checks", "decision", "publication", "position", "position committed", "position read",
    "state as of", "mode", "comparison began", "comparison ended", "guarantee", "level", "level achieved",
    "configuration", "code", "digest", "run",
)  # fmt: skip


def _header(part: _Part, guarantees: Mapping[str, str], levels: Mapping[str, str]) -> Row:
    cut, found = part.cut, part.found
    shown = cut.shown if cut else of_live(found) if found else Headline.NOT_RUN
    evidence = found.evidence if found else {}
    run = cut.run_id if cut else found.run_id if found else ""
    # Without their moments, which the blocks below have as such.
    of_cut: tuple[Cell, ...] = (
        cut.compared_in_words,
        cut.checks.word,
        cut.decision.state.value if cut.decision else cut.decision_in_words(),
        _published(cut),
    ) if cut else (of_guaranteed(found.tables).value if found else None, None, None, None)  # fmt: skip
    compared: tuple[Cell, ...] = (
        str(found.position) if found.position else None,
        *(found.position_time if found.moment is one else None for one in Moment),
        found.mode or None,
        found.started_at,
        found.ended_at,
    ) if found else (None,) * (len(Moment) + 4)  # fmt: skip
    level = level_of(found, levels.get(str(part.about[1])))
    of_run = (_text(evidence.get(name)) for name in ("config_hash", CODE, "digest"))
    achieved = cut.level_in_words if cut else achieved_in_words(found)
    known = (guarantees.get(run), level, achieved, *of_run)
    cells = (*part.about, shown.value, *of_cut, *compared, *known, run)
    return Row(cells, is_wrong=shown not in headline.WELL)


def _published(cut: CutState) -> str:
    version = cut.publication.version
    return f"version {version}" if version is not None else cut.publication.in_words()


def _altered(part: _Part) -> Iterator[Row]:
    """Before all else that is said of a comparison: that it is not stored as it was recorded."""
    of_live = altered_in_words(part.found) if part.found else ()
    for line in part.cut.altered_in_words if part.cut else of_live:
        yield Row((*part.about, line), is_wrong=True)


def _notes(part: _Part, zone: tzinfo, works: Mapping[str, Work]) -> Iterator[Row]:
    found, cut = part.found, part.cut
    failure = cut.failure if cut else failure_of(found.evidence) if found else None
    for line in failure.lines(zone) if failure else ():
        yield Row((*part.about, line), is_wrong=True)
    if found and (hollow := nothing_compared(found.tables)):
        yield Row((*part.about, hollow), is_wrong=True)
    if is_all_settled(_counted(part, works), sum(table.breaks_total for table in part.tables)):
        yield Row((*part.about, ALL_SETTLED))
    for line in late_in_words(found.evidence) if found else ():
        yield Row((*part.about, f"LATE {line}"), is_waiting=True)
    for line in _plain_notes(found.evidence, zone) if found else ():
        yield Row((*part.about, line))
    is_tested = not found or is_passed(found.evidence)
    for line in self_test_in_words(found.evidence) if found else ():
        yield Row((*part.about, f"self-test: {line}"), is_wrong=not is_tested)


def _plain_notes(evidence: Mapping[str, Any], zone: tzinfo) -> Iterator[str]:
    yield from separate_in_words(evidence)
    yield from log_between_in_words(evidence)
    yield from by_log_in_words(evidence)
    yield from taken_over_in_words(evidence)
    yield from day_slice_in_words(evidence)
    yield from without_rows_in_words(evidence)
    yield from repeated_in_words(evidence, zone)
    for line in third_witness_in_words(evidence, zone):
        yield f"third witness: {line}"
    for table, how in transforms_in_words(evidence).items():
        yield f"{table} is {how}"


def _completeness(parts: Sequence[_Part]) -> Block:
    tables = [(part, table) for part in parts for table in part.tables]
    compared = [(mine, theirs) for _, table in tables if (mine := table.source_rows) is not None
                and (theirs := table.destination_rows) is not None]  # fmt: skip
    source, destination = sum(mine for mine, _ in compared), sum(theirs for _, theirs in compared)
    breaks = sum(table.breaks_total for _, table in tables)
    totals = (None, None, "all", None, source, destination, destination - source, breaks, None)
    columns = ("table", "verdict", "rows in source", "rows in destination", "difference", "breaks", "reason")
    return _block("Completeness", columns, (_complete(part, table) for part, table in tables), totals)


def _complete(part: _Part, table: TableVerdict) -> Row:
    mine, theirs = table.source_rows, table.destination_rows
    difference = theirs - mine if mine is not None and theirs is not None else None
    is_answered = table.verdict in (Verdict.MATCH, Verdict.BREAK)
    breaks = table.breaks_total if is_answered or table.breaks_total else None
    return Row(
        (*part.about, table.table, table.verdict.value, mine, theirs, difference, breaks, table.reason or None),
        is_wrong=table.verdict is not Verdict.MATCH and not table.is_left_out,
    )


_TOTALS = (
    "table", "column", "group", "rows in source", "rows in destination", "difference of rows", "sum in source",
    "sum in destination", "difference",
)  # fmt: skip


def _totals(part: _Part) -> Iterator[Row]:
    for total in (total for table in part.tables for total in table.totals):
        difference: Cell = differences.of_sums(total)
        if difference is None and total.column and not total.is_equal:
            difference = NO_NUMBER
        yield Row(
            (
                *part.about,
                total.table,
                total.column or None,
                _group(total.group),
                total.source_rows,
                total.destination_rows,
                differences.of_rows(total),
                total.source_sum,
                total.destination_sum,
                difference,
            ),
            is_wrong=not total.is_equal,
        )


_GROUPS = ("group", "totals that differ", "difference of rows", "difference", "without signs")


def _groups(part: _Part) -> Iterator[Row]:
    totals: list[ControlTotal] = [total for table in part.tables for total in table.totals]
    for one in differences.by_group(totals):
        sums: tuple[Cell, Cell] = (NO_NUMBER, NO_NUMBER)
        if one.net is not None and one.absolute is not None:
            sums = (one.net, one.absolute)
        cells = (*part.about, _group(one.group), one.unequal, one.rows, *sums)
        yield Row(cells, is_wrong=one.unequal > 0)


def _group(values: Sequence[str]) -> str:
    return "/".join(values) or "all"


def _breaks_by_kind(parts: Sequence[_Part]) -> Block:
    rows = [row for part in parts for table in part.tables for row in _kinds(part, table)]
    found = sum(table.breaks_total for part in parts for table in part.tables)
    return _block("Breaks by kind", ("table", "kind", "breaks"), iter(rows), (None, None, "all", None, found))


def _kinds(part: _Part, table: TableVerdict) -> Iterator[Row]:
    kinds = [one.type for one in table.breaks]
    for kind in (kind for kind in BreakType if kind in kinds):
        yield Row((*part.about, table.table, kind.value, kinds.count(kind)), is_wrong=True)
    if (hidden := table.breaks_total - len(kinds)) > 0:
        yield Row((*part.about, table.table, "found, and not listed", hidden), is_wrong=True)


_BREAKS = ("break", "table", "kind", "key", "column", "source", "destination", "difference")


def _breaks(part: _Part) -> Iterator[Row]:
    if part.found is None:
        return
    order = list(BreakType)
    breaks = [one for table in part.tables for one in table.breaks]
    for one in sorted(breaks, key=lambda one: order.index(one.type)):
        name = break_id(part.found.sync, part.found.destination, one)
        for column, mine, theirs, delta in break_cells(one):
            cells = (name, one.table, one.type.value, one.key, column or None, mine or None, theirs or None, delta)
            yield Row((*part.about, *cells), is_wrong=True)


_WITNESSES = ("break", "table", "key", "side that moved", "why", "changes in the log", "last change", "position",
              "committed")  # fmt: skip


def _witnesses(part: _Part) -> Iterator[Row]:
    """What the log says of each listed row, without a value of it; the newest change of the row stands first."""
    for name, one in _identities(part):
        if (witness := one.witness) is None:
            continue
        known: tuple[Cell, ...] = (witness.moved.value, witness.why, witness.changes)
        changes: list[tuple[Cell, ...]] = [(each.operation, each.position, each.at) for each in witness.last]
        yield Row((*part.about, name, one.table, one.key, *known, *(changes[0] if changes else (None,) * 3)))
        yield from (Row((*part.about, name, *(None,) * 5, *change)) for change in changes[1:])


def _identities(part: _Part) -> list[tuple[str, Break]]:
    if part.found is None:
        return []
    place = (part.found.sync, part.found.destination)
    return [(break_id(*place, one), one) for table in part.tables for one in table.breaks]


def _counted(part: _Part, works: Mapping[str, Work]) -> dict[WorkState, int]:
    """How many of the listed breaks are in which state now."""
    states = [works[name].state for name, _ in _identities(part) if name in works]
    return {state: states.count(state) for state in WorkState if state in states}


def _states(part: _Part, works: Mapping[str, Work]) -> Iterator[Row]:
    for state, number in _counted(part, works).items():
        yield Row((*part.about, state.value, number), is_wrong=state is WorkState.OPEN)


_AGES = ("age", "breaks", "open", "carried forward", "sum of", "group", "with an amount", "amount without signs")


def _ages(part: _Part, worked: Worked) -> Iterator[Row]:
    """A row for each band, and one more for each further column and group that is summed in it."""
    for one in worked.ages_of(part.found):
        cells: tuple[Cell, ...] = (band_in_words(one.band, worked.bounds), one.breaks, one.open, one.carried)
        amounts = [_aged_amount(amount) for amount in one.amounts] or [(None,) * 4]
        yield Row((*part.about, *cells, *amounts[0]), is_wrong=one.open > 0)
        yield from (Row((*part.about, cells[0], *(None,) * 3, *amount)) for amount in amounts[1:])


def _aged_amount(one: AgedAmount) -> tuple[Cell, ...]:
    # What may be of several currencies is never added up.
    group, gross = (None, None) if one.group is None else (_group(one.group), one.gross)
    return f"{one.table}.{one.column}", group, one.breaks, gross


_TOLERANCES = (
    "tolerance", "table", "column", "per row, up to", "why", "asked for by", "approved by", "last day", "breaks",
    "absorbed here", "absorbed so far",
)  # fmt: skip


def _absorbed(part: _Part, worked: Worked, zone: tzinfo) -> Iterator[Row]:
    """Each that is in force in the destination, also one that has nothing to tolerate here."""
    mine = [worked.works[name] for name, _ in _identities(part) if name in worked.works]
    for one in (one for one in worked.tolerances if one.destination == part.about[1]):
        amounts = [work.absorbed or Decimal(0) for work in mine if work.tolerance == one.number]
        known = (one.number, one.table, one.column, one.amount, one.why, one.made_by, one.approved_by)
        yield Row((*part.about, *known, one.last_day(zone), len(amounts), sum(amounts, Decimal(0)), one.absorbed))


_WORK = ("break", "table", "key", "state", "since", "owner", "reason", "first found")


def _work(part: _Part, works: Mapping[str, Work]) -> Iterator[Row]:
    """Breaks that somebody has done something about, or that are gone since."""
    for name, one in _identities(part):
        known = works.get(name)
        if known is None or (known.state is WorkState.OPEN and not known.owner):
            continue
        done = (known.state.value, known.since, known.owner or None, known.reason or None, known.first_at)
        yield Row((*part.about, name, one.table, one.key, *done), is_wrong=known.state is WorkState.OPEN)


_CHECKS = ("outcome", "checked", "check", "meaning", "rows", "for example", "detail")


def _checks(part: _Part) -> Iterator[Row]:
    if part.cut is None:
        return
    checks = part.cut.checks
    for one in checks.failed:
        yield Row((*part.about, "failed", *_failed(one)), is_wrong=True)
    if checks.checked is None:
        yield Row((*part.about, "not run", *(None,) * 6), is_wrong=not part.cut.is_running)
    else:
        rest = checks.checked - len(checks.failed)
        yield Row((*part.about, "passed", f"{rest:,} checks", *(None,) * 5))
    yield from (Row((*part.about, "noted", None, None, note, None, None, None)) for note in checks.notes)


def _failed(one: FailedCheck) -> tuple[Cell, ...]:
    return one.on, one.type, one.why, one.rows, ", ".join(one.keys) or None, one.detail or None


_DECISIONS = ("decision", "who", "asked", "answered", "reason")


def _decision(part: _Part) -> Iterator[Row]:
    decision = part.cut.decision if part.cut else None
    if decision is None:
        return
    who = decision.who or (" or ".join(decision.approvers) or "a person" if not decision.at else "somebody")
    cells = (decision.state.value, who, _moment(decision.since), _moment(decision.at), decision.reason or None)
    yield Row((*part.about, *cells), is_wrong=part.cut is not None and part.cut.is_open)


_SIGN_OFFS = ("version", "sign-off", "who", "when", "reason", "hash of the verdict")


def _sign_off(part: _Part, of_takes: Mapping[tuple[str, str], SignOff]) -> Iterator[Row]:
    """What was signed and re-opened, and behind it what it waits for."""
    one = of_takes.get((part.cut.run_id, part.cut.destination)) if part.cut else None
    if one is None:
        return
    why, seen = one.prepared_reason or None, one.verdict_hash or None
    yield Row((*part.about, one.version, "prepared", one.preparer, one.prepared_at, why, seen))
    for act in one.acts:
        word = "re-opened" if act.act is SignAct.REOPENED else "signed"
        yield Row((*part.about, act.version, word, act.who, act.at, act.reason or None, act.verdict_hash))
    for line in one.late_in_words:
        yield Row((*part.about, one.version, "rows came late", None, None, line, None), is_wrong=True)
    if one.left_out is not None:
        yield Row((*part.about, one.version, "left out", None, None, one.left_out_in_words, None), is_wrong=True)
    is_void = one.state is SignState.VOID
    standing = "another verdict since, waits" if is_void else "waits for a signature"
    if one.state is SignState.RESTATED:
        yield Row((*part.about, one.in_force, f"restates version {one.version}", *(None,) * 4), is_wrong=True)
    elif one.waits:
        yield Row((*part.about, one.version, standing, *(None,) * 4), is_wrong=is_void, is_waiting=not is_void)


_VERSIONS = ("version", "verdict", "compared", "publication", "run")


def _version(one: CutState, zone: tzinfo) -> Row:
    compared = one.found.ended_at if one.found else None
    words = one.publication.in_words(zone)
    cells = (one.publication.version, one.shown.value, compared, words, one.run_id)
    return Row((one.business_date, one.destination, *cells), is_wrong=one.shown not in headline.WELL)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
