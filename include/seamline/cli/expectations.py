"""Propose a suite of expectations for the cuts of a sync, by the source's catalogue and its rows.

`init` writes include/expectations/<sync>.yaml and changes nothing else. What the catalogue promises and columns of few
values become checks; what only some rows show is written as a comment. Read it and keep what your business promises.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from seamline import registry, settings
from seamline.cli.answer import give
from seamline.domain.errors import Refused, SeamlineError
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.load import load_declarations
from seamline.spec.sensitive import declared_sensitive
from seamline.sync.suite_proposal import Observed, ProposedCheck, ProposedTable, observe, proposed

# From the folder of suites to the schemas that editors check them by.
_SCHEMA = "# yaml-language-server: $schema=../../schemas/expectations.schema.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True)
    init = what.add_parser("init", help="propose a suite for the cuts of a sync")
    init.add_argument("sync", help="a declared sync")
    init.add_argument("--name", default="", help="name of the suite; the sync's where it is left out")
    init.add_argument("--force", action="store_true", help="write over a suite of this name that is there")


def run(args: argparse.Namespace) -> int:
    folder = settings.load().declarations
    plan = compile_plan(load_declarations(folder), args.sync)
    if plan.reconcile_only is not None:
        raise Refused(f"sync {plan.sync} only compares: it has no cuts that a suite could check")
    name = args.name or plan.sync
    file = _free_place(folder / "expectations", name, overwrite=args.force)
    found = _proposed(plan, declared_sensitive(folder, plan.sync))
    text = suite_text(name, plan.sync, found)
    # What is written here is read back first: a file that validate refuses would take the nights away.
    ExpectationsSpec.model_validate(yaml.safe_load(text))
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    checks = sum(not one.is_off for table in found for one in table.checks)
    sys.stdout.write(f"wrote {file}: {checks} checks of {len(found)} tables\n")
    if plan.reconcile.expectations != name:
        sys.stdout.write(f"read it, and let the sync use it: `reconcile: {{expectations: {name}}}`\n")
    is_used = plan.reconcile.expectations == name
    give(args, {"file": str(file), "checks": checks, "tables": len(found), "is_used": is_used})
    return 0


def _free_place(folder: Path, name: str, *, overwrite: bool) -> Path:
    there = [file for file in (folder / f"{name}.yaml", folder / f"{name}.json") if file.exists()]
    if there and (not overwrite or there[0].suffix == ".json"):
        raise Refused(
            f"{there[0]} is there already",
            hint="choose another name with --name, or write over a YAML suite with --force",
        )
    return folder / f"{name}.yaml"


def _proposed(plan: SyncPlan, sensitive: Mapping[str, frozenset[str]]) -> list[ProposedTable]:
    """Of each carried table, in the order of the sync."""
    side = registry.separate_source(plan)
    survey = side.survey([table.name for table in plan.tables])
    there = {table.name: table for table in survey.tables}
    found: list[ProposedTable] = []
    with ExitStack() as ends:
        opened = side.open(survey.tables, 1)
        for view in opened.views:
            ends.callback(view.close)
        for one in plan.tables:
            made = _made_elsewhere(plan, one.name)
            if one.name not in there:
                why = "; ".join(problem.what for problem in survey.problems if problem.table == one.name)
                found.append(ProposedTable(one.name, left_out=why))
            elif made:
                found.append(ProposedTable(one.name, left_out=made))
            else:
                try:
                    hidden = sensitive.get(one.name, frozenset())
                    observed = observe(opened.views[0], there[one.name], hidden=hidden)
                except SeamlineError as exc:
                    sys.stderr.write(f"{one.name}: by its catalogue alone, its rows could not be read: {exc.message}\n")
                    observed = Observed()
                date = one.business_date.column if one.business_date else ""
                found.append(proposed(there[one.name], observed, business_date=date))
    return found


def _made_elsewhere(plan: SyncPlan, table: str) -> str:
    """Why the source says nothing of the columns that a destination holds; "" where it does."""
    is_made = any(plan.held_by(one.name).table(table).transform is not None for one in plan.destinations)
    return "a transform makes its rows, so the source does not say what they hold" if is_made else ""


def suite_text(name: str, sync: str, tables: Sequence[ProposedTable]) -> str:
    """The file of a suite, with comments."""
    return "\n".join(
        [
            _SCHEMA,
            f"# Proposed for sync {sync} by the source's catalogue and some of its rows. What is behind a # is not"
            " checked:",
            "# take the # away where it is a promise of your business, and delete what is none.",
            f"expectations: {name}",
            "checks:",
            *(line for table in tables for line in _table_lines(table)),
            "",
        ]
    )


def _table_lines(table: ProposedTable) -> Iterator[str]:
    yield f"  # ---- {_shown(table.table)}"
    if table.left_out:
        yield f"  # nothing is proposed: {_shown(table.left_out)}"
    for remark in table.remarks:
        yield f"  # {_shown(remark)}"
    for check in table.checks:
        yield from (f"  # {line}" if check.is_off else f"  {line}" for line in _check_lines(table.table, check))


def _check_lines(table: str, check: ProposedCheck) -> Iterator[str]:
    yield f"- table: {_text(table)}"
    yield f"  type: {check.type}"
    yield f"  kwargs: {_mapping(check.kwargs)}"
    yield f"  why: {_text(check.why)}"


def _mapping(kwargs: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_value(value)}" for key, value in kwargs.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """As JSON has it, which YAML reads alike; letters that end a line there are escaped."""
    return json.dumps(value, ensure_ascii=not value.isprintable())


def _shown(text: str) -> str:
    """In a comment: on one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
