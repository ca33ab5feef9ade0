"""What the gate expects of a staged cut: of reconciliation's results, and of the staged rows. Pure, without GX.

The suite fails closed. That "no break was found" holds also when nobody looked, so the first things expected are that
reconciliation ran, for every table of the plan, with a verdict each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from seamline.domain.catalogue import Column
from seamline.domain.runs import Reconciliation
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import Run, SyncPlan

# The frame of the tables' verdicts.
TABLE_VERDICTS = "table_verdicts"
# Rows, or groups of them, that are named of each that is not met.
KEYS_MAX = 20
_VERDICTS = [verdict.value for verdict in Verdict]


class Weight(StrEnum):
    """`EVIDENCE`: without it nothing is known, nobody can sign. `BREAK`: `on_break` decides."""

    EVIDENCE = "evidence"
    BREAK = "break"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation of Great Expectations by its own name and arguments. `why` is shown when it fails. `shown`: of a
    query for the rows that break a declared rule, all its columns: groups and what they add up to, which name them."""

    type: str
    kwargs: Mapping[str, Any]
    why: str
    weight: Weight = Weight.BREAK
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A small table of result values. `columns` are there also where there is no row."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """A staged table in the destination. `key` names its rows; () where it has none, and they are only counted."""

    name: str
    schema: str
    relation: str
    expectations: tuple[Expectation, ...]
    key: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """`detail` holds counts and never a row's value. `rows`: how many rows of data did not meet it, None where it is
    not about rows; `keys` names some of them, as the breaks of a comparison do. `note`: what must be said beside one
    that is met."""

    batch: str
    expectation: Expectation
    is_met: bool
    detail: str = ""
    rows: int | None = None
    keys: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Of all outcomes. No outcome at all is no success."""

    outcomes: tuple[Outcome, ...] = ()
    broken: tuple[Outcome, ...] = field(init=False, default=())
    missing: tuple[Outcome, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        failed = [outcome for outcome in self.outcomes if not outcome.is_met]
        object.__setattr__(self, "missing", tuple(o for o in failed if o.expectation.weight is Weight.EVIDENCE))
        object.__setattr__(self, "broken", tuple(o for o in failed if o.expectation.weight is Weight.BREAK))

    @staticmethod
    def impossible(what: str, why: str) -> "GateResult":
        """Of a destination whose rows could not be looked at."""
        can_be_checked = Expectation("", {}, "it can be checked", Weight.EVIDENCE)
        return GateResult((Outcome(what, can_be_checked, is_met=False, detail=why),))

    @property
    def verdict(self) -> Verdict:
        if not self.outcomes or self.missing:
            return Verdict.NOT_RUN
        return Verdict.BREAK if self.broken else Verdict.MATCH

    def to_json(self) -> dict[str, Any]:
        """Small, for the run's result and XCom. Of rows their keys and no other values; of groups that break a rule
        what they add up to."""
        notes = [outcome.note for outcome in self.outcomes if outcome.note]
        return {
            **({"notes": notes} if notes else {}),
            "verdict": self.verdict.value,
            "checked": len(self.outcomes),
            "failed": [
                {
                    "on": o.batch,
                    "type": o.expectation.type,
                    "why": o.expectation.why,
                    "detail": o.detail,
                    "rows": o.rows,
                    "keys": list(o.keys),
                }
                for o in (*self.missing, *self.broken)
            ],
        }


def result_frames(run: Run, destination: str, found: Reconciliation | None) -> tuple[Frame, ...]:
    """The result tables of one destination, as far as the gate looks at them."""
    verdicts = {verdict.table: verdict for verdict in (found.tables if found else ())}
    plan = run.plan
    # A parked table has nothing to compare, and is reported: without its NOT_RUN the results are not whole.
    named = (*(table.name for table in plan.tables), *(table.name for table in plan.parked))
    planned = tuple(dict.fromkeys([*named, *_derived(plan, verdicts)]))
    return (
        _run_frame(run, destination, found, planned, verdicts),
        _table_frame(planned, verdicts),
        _total_frame(plan, verdicts),
    )


def staged_rows(
    plan: SyncPlan,
    destination: str,
    cut: StagedCut,
    checks: Iterable[tuple[str, str, Mapping[str, Any], str]],
    rules: Iterable[tuple[str, Expectation]] = (),
) -> tuple[StagedRows, ...]:
    """The staged tables with the declared checks `(table, type, kwargs, why)`, the declared rules `(table, query)` and
    the uniqueness of their keys.

    A table that the cut leaves out (no history, parked) has nothing to check; `result_frames` sees to its reason.
    """
    wanted: dict[str, list[Expectation]] = {table.table: _key_expectations(plan, table.table) for table in cut.tables}
    for table, type_, kwargs, why in checks:
        if table in wanted:
            wanted[table].append(Expectation(type_, dict(kwargs), why))
    for table, rule in rules:
        if table in wanted:
            wanted[table].append(rule)
    schema = plan.destination(destination).stage_namespace
    definitions = {table.name: table.table for table in plan.tables}
    found = []
    for staged in cut.tables:
        place = staged.staged_as.partition(".")
        own, relation = (place[0], place[2]) if place[1] else (schema, staged.staged_as)
        rows = Expectation(
            "expect_table_row_count_to_equal",
            {"value": staged.rows},
            "the staged table holds the rows of its receipt",
            Weight.EVIDENCE,
        )
        definition = definitions.get(staged.table)
        key = tuple(definition.key_columns) if definition is not None and definition.is_keyed else ()
        found.append(StagedRows(staged.table, own, relation, (rows, *wanted[staged.table]), key))
    return tuple(found)


def _derived(plan: SyncPlan, verdicts: Mapping[str, TableVerdict]) -> Sequence[str]:
    """Derived tables that must have a verdict: those whose base tables have one that is not NOT_RUN."""
    return [
        derived.name
        for derived in plan.derived
        if all(base in verdicts and verdicts[base].verdict is not Verdict.NOT_RUN for base in derived.bases)
    ]


def _run_frame(
    run: Run,
    destination: str,
    found: Reconciliation | None,
    planned: Sequence[str],
    verdicts: Mapping[str, TableVerdict],
) -> Frame:
    looked_at = [verdict for verdict in verdicts.values() if verdict.verdict is not Verdict.NOT_RUN]
    is_mine = bool(found and found.run_id == run.run_id and found.business_date == run.business_date)
    row = (destination, is_mine, len(planned), len(set(planned) & set(verdicts)), len(looked_at))
    return Frame(
        "reconciliation",
        ("destination", "is_of_this_run", "tables_planned", "tables_with_verdict", "tables_looked_at"),
        (row,) if found else (),
        (
            _expect_rows(1, "reconciliation of this run was saved"),
            Expectation(
                "expect_column_values_to_be_in_set",
                {"column": "is_of_this_run", "value_set": [True]},
                "the reconciliation belongs to this run and this business date",
                Weight.EVIDENCE,
            ),
            Expectation(
                "expect_column_pair_values_to_be_equal",
                {"column_A": "tables_planned", "column_B": "tables_with_verdict"},
                "every table of the plan was compared",
                Weight.EVIDENCE,
            ),
            Expectation(
                "expect_column_values_to_be_between",
                {"column": "tables_looked_at", "min_value": 1},
                "at least one table was really compared",
                Weight.EVIDENCE,
            ),
        ),
    )


def _table_frame(planned: Sequence[str], verdicts: Mapping[str, TableVerdict]) -> Frame:
    rows = []
    for table in dict.fromkeys([*planned, *verdicts]):
        found = verdicts.get(table)
        verdict = found.verdict if found else None
        is_fine = verdict is Verdict.MATCH or (verdict is Verdict.NOT_RUN and bool(found and found.reason))
        rows.append((table, verdict.value if verdict else None, is_fine, found.breaks_total if found else 0))
    return Frame(
        TABLE_VERDICTS,
        ("table", "verdict", "is_match_or_left_out_for_a_reason", "breaks"),
        tuple(rows),
        (
            _expect_rows(len(planned), "there is a row for every table of the plan", at_least=True),
            Expectation(
                "expect_column_values_to_not_be_null",
                {"column": "verdict"},
                "each table has a verdict",
                Weight.EVIDENCE,
            ),
            Expectation(
                "expect_column_values_to_be_in_set",
                {"column": "verdict", "value_set": _VERDICTS},
                "each verdict is a known one",
                Weight.EVIDENCE,
            ),
            Expectation(
                "expect_column_values_to_be_in_set",
                {"column": "is_match_or_left_out_for_a_reason", "value_set": [True]},
                "each table is MATCH, or is left out and says why",
            ),
            Expectation(
                "expect_column_values_to_be_between",
                {"column": "breaks", "min_value": 0, "max_value": 0},
                "no table has a break",
            ),
        ),
    )


def _total_frame(plan: SyncPlan, verdicts: Mapping[str, TableVerdict]) -> Frame:
    looked_at = {name: found for name, found in verdicts.items() if found.verdict is not Verdict.NOT_RUN}
    rows = [
        row
        for wanted in plan.reconcile.control_totals
        if wanted.table in looked_at
        for row in _total_rows(looked_at[wanted.table], wanted.label)
    ]
    return Frame(
        "control_totals",
        ("table", "column", "group", "source", "destination"),
        tuple(rows),
        _TOTAL_EXPECTATIONS if rows else (),
    )


def _total_rows(found: TableVerdict, column: str) -> list[tuple[Any, ...]]:
    """One row per group. A declared total that nobody computed has no value, unless there is nothing to add up."""
    totals = [total for total in found.totals if total.column == column]
    if not totals:
        value = "no rows" if found.source_rows == 0 and found.destination_rows == 0 else None
        return [(found.table, column, "", value, value)]
    return [
        (
            found.table,
            column,
            "/".join(total.group),
            f"{total.source_rows} rows, {total.source_sum}",
            f"{total.destination_rows} rows, {total.destination_sum}",
        )
        for total in totals
    ]


def _key_expectations(plan: SyncPlan, table: str) -> list[Expectation]:
    definition = next((each.table for each in plan.tables if each.name == table), None)
    if definition is None or not definition.key:
        return []
    why = f"the key of {table} is unique"
    if len(definition.key) == 1:
        return [Expectation("expect_column_values_to_be_unique", {"column": definition.key[0]}, why)]
    return [Expectation("expect_compound_columns_to_be_unique", {"column_list": list(definition.key)}, why)]


def _expect_rows(number: int, why: str, *, at_least: bool = False) -> Expectation:
    bounds = {"min_value": number} if at_least else {"min_value": number, "max_value": number}
    return Expectation("expect_table_row_count_to_be_between", bounds, why, Weight.EVIDENCE)


_TOTAL_EXPECTATIONS = (
    Expectation(
        "expect_column_values_to_not_be_null",
        {"column": "source"},
        "each declared control total was computed",
        Weight.EVIDENCE,
    ),
    Expectation(
        "expect_column_pair_values_to_be_equal",
        {"column_A": "source", "column_B": "destination"},
        "control totals are equal on both sides",
    ),
)
