"""Plan a repair of live tables, show it, approve it as a second person, apply it.

A plan reads the rows that a comparison has found to differ once more, on both sides at one position, and says what
would be done to each. It changes nothing. Only what another person has approved is applied, while the stream stands
still; then the tables are compared again. docs/how-to/repair.md
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from typing import Any

from seamline import repairing, settings
from seamline.cli.answer import give
from seamline.cli.person import person
from seamline.domain.audit import FROM_COMMAND_LINE
from seamline.domain.masking import masked_repair_row
from seamline.domain.repair import Repair, RepairRow, RootCause, counted
from seamline.domain.verdict import Verdict
from seamline.spec.sensitive import hidden_columns

_ROWS_SHOWN = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True)
    plan = orders.add_parser("plan", help="say what would be done; changes nothing")
    plan.add_argument("sync")
    plan.add_argument("destination", nargs="?", default="")
    plan.add_argument("--compared", default="", metavar="RUN", help="the comparison; default: the newest")
    listed = orders.add_parser("list", help="the repairs of a sync")
    listed.add_argument("sync")
    for name, text in (("show", "a plan with both values of each row"), ("apply", "apply it and compare again")):
        orders.add_parser(name, help=text).add_argument("repair", help="its id, or the last part of it")
    approve = orders.add_parser("approve", help="let it be applied, as another person than the one who planned it")
    approve.add_argument("repair", help="its id, or the last part of it")
    approve.add_argument("--cause", required=True, choices=[cause.value for cause in RootCause])
    approve.add_argument("--reason", required=True, help="how the rows came to differ, in words")
    parser.epilog = "`apply` ends with 0 only where the tables match afterwards."


def run(args: argparse.Namespace) -> int:
    match args.order:
        case "plan":
            found = repairing.plan(
                args.sync, destination=args.destination, compared=args.compared, by=person(), origin=FROM_COMMAND_LINE
            )
            _print(args, found)
        case "list":
            with closing(repairing.repairs()) as kept:
                known = kept.of_sync(args.sync)
            sys.stdout.writelines(f"{one.run_id}  {in_words(one)}\n" for one in known)
            give(args, [_document(one) for one in known])
        case "show":
            _print(args, _named(args.repair))
        case "approve":
            mine = _named(args.repair)
            with closing(repairing.repairs()) as kept:
                kept.approve(
                    mine.run_id,
                    by=person(),
                    cause=RootCause(args.cause),
                    reason=args.reason,
                    origin=FROM_COMMAND_LINE,
                )
            sys.stdout.write(f"approved: {mine.run_id}\n")
            give(args, {"run_id": mine.run_id, "approved_by": person(), "cause": args.cause, "reason": args.reason})
        case "apply":
            done = repairing.apply(_named(args.repair).run_id)
            _print(args, done)
            return 0 if done.verdict is Verdict.MATCH else 1
    return 0


def _named(name: str) -> Repair:
    with closing(repairing.repairs()) as kept:
        return kept.repair(kept.named(name))


def in_words(repair: Repair) -> str:
    """Its state, for people, on one line."""
    parts = [f"{repair.sync} → {repair.destination}", f"{repair.state}", f"planned by {repair.planned_by}"]
    if repair.approved_by:
        parts.append(f"approved by {repair.approved_by} ({repair.cause}: {repair.reason})")
    if repair.applied_position:
        parts.append(f"applied at {repair.applied_position}")
    if repair.verdict is not None:
        parts.append(f"compared again: {repair.verdict}")
    return ", ".join(parts)


def _print(args: argparse.Namespace, repair: Repair) -> None:
    sys.stdout.write("\n".join(_lines(repair)) + "\n")
    hidden = hidden_columns(settings.load().declarations, repair.sync)
    give(args, {**_document(repair), "rows": [masked_repair_row(row, hidden) for row in repair.rows]})


def _document(repair: Repair) -> dict[str, Any]:
    return {field.name: getattr(repair, field.name) for field in fields(repair) if field.name != "rows"}


def _lines(repair: Repair) -> Iterator[str]:
    yield repair.run_id
    yield in_words(repair)
    yield f"compared by {repair.compared}; both sides read again at {repair.position}"
    for table, why in sorted(repair.refused.items()):
        yield f"not repaired: {table}: {why}"
    for table, states in counted(repair.rows).items():
        yield f"{table}: {', '.join(f'{rows} {state}' for state, rows in sorted(states.items()))}"
    if repair.applied_position:
        yield "values as both sides were read for the plan: those of the destination are of before the repair"
    hidden = hidden_columns(settings.load().declarations, repair.sync)
    for row in repair.rows[:_ROWS_SHOWN]:
        yield from _row_lines(masked_repair_row(row, hidden))
    if len(repair.rows) > _ROWS_SHOWN:
        yield f"… and {len(repair.rows) - _ROWS_SHOWN} rows more"


def _row_lines(row: RepairRow) -> Iterator[str]:
    why = f" ({row.why})" if row.why else ""
    yield f"  {row.table} {row.named}: {row.action or 'left'}, {row.state}{why}"
    for side, texts in (("source", row.source), ("destination", row.destination)):
        yield f"    {side:<11} {'no row' if texts is None else json.dumps(dict(texts), ensure_ascii=False)}"
