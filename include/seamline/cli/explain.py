"""Show what a sync will do: its tables, the stages of every DAG, and every setting with its origin; or the bounds of
one business date; or what readers may rely on, by kinds."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from seamline import settings
from seamline.cli.answer import give
from seamline.cli.day import day_of_argument
from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.explain import explain
from seamline.plan.explain_date import date_document, explain_date
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages
from seamline.spec.consistency import MATRIX_HEAD, matrix_lines, matrix_text
from seamline.spec.effective import EffectiveSetting, Origin, effective_settings
from seamline.spec.faults import guess
from seamline.spec.levels import declared_levels
from seamline.spec.load import Declarations, load_declarations, load_sync
from seamline.spec.unlogged import is_of_streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", help="name of the sync; all of them where left out")
    parser.add_argument(
        "--date", metavar="DATE", help="the bounds of this business date, as 2026-11-25; needs the sync"
    )
    parser.add_argument(
        "--matrix", action="store_true", help="what readers may rely on, by kinds of source and destination"
    )


def run(args: argparse.Namespace) -> int:
    if args.matrix:
        sys.stdout.write(matrix_text())
        give(args, [dict(zip(MATRIX_HEAD, line, strict=True)) for line in matrix_lines()])
        return 0
    folder = settings.load().declarations
    day = day_of_argument(args.date) if args.date else None
    if day is not None and args.sync is None:
        raise ConfigError("a date is explained for one sync", hint="./seamline explain <sync> --date 2026-11-25")
    if args.sync is None:
        declarations = load_declarations(folder)
    else:
        # Only this sync has to be right.
        file = folder / "syncs" / f"{args.sync}.yaml"
        if not file.is_file():
            known = sorted(path.stem for path in (folder / "syncs").glob("*.yaml"))
            raise ConfigError(f"there is no sync `{args.sync}`", hint=guess(args.sync, known))
        declarations = load_sync(file)
    if day is not None:
        plan, now = compile_plan(declarations, args.sync), datetime.now(UTC)
        sys.stdout.write(explain_date(plan, day, now=now))
        give(args, date_document(plan, day, now=now))
        return 0
    documents = []
    for name in declarations.syncs:
        plan = compile_plan(declarations, name)
        within = declarations.sync(name).onboard.stages_within.limits()
        levels = declared_levels(folder, name)
        place = declarations.sources[plan.source.name].place_in_words
        said = explain(plan, place=place, onboard_within=within)
        sys.stdout.write(f"{said}\n{_settings(declarations, name, levels)}")
        documents.append({**_document(plan, declarations), "levels": levels})
    give(args, documents if args.sync is None else documents[0])
    return 0


def _document(plan: SyncPlan, declarations: Declarations) -> dict[str, Any]:
    """`plan`: as Spark receives it."""
    powers = {one.name: described(sink_kind(one.kind)) for one in plan.destinations}
    return {
        "sync": plan.sync,
        "plan": json.loads(plan_to_json(plan)),
        "stages": all_stages(plan),
        "settings": {of: list(map(_setting, found)) for of, found in _effective(declarations, plan.sync)},
        "powers": powers,
    }


def _effective(declarations: Declarations, name: str) -> Iterator[tuple[str, tuple[EffectiveSetting, ...]]]:
    """Of the sync, its source and its destinations."""
    sync = declarations.sync(name)
    source = declarations.sources[sync.source]
    for of, spec in ((name, sync), (f"source {sync.source}", source)):
        found = effective_settings(spec)
        yield of, tuple(one for one in found if source.has_log or not is_of_streams(one.path))
    for destination in sync.destinations:
        yield f"destination {destination}", effective_settings(declarations.destinations[destination])


def _settings(declarations: Declarations, name: str, levels: Mapping[str, str]) -> str:
    lines = []
    for of, settings_of in _effective(declarations, name):
        lines += [f"settings of {of}  (* default)", *map(_line, settings_of)]
        destination = of.removeprefix("destination ")
        if destination != of:
            kind = declarations.destinations[destination].kind
            if destination in levels:
                lines += [f"what readers of destination {destination} may rely on", f"    {levels[destination]}"]
            lines.append(f"powers of destination {destination}, kind {kind}")
            lines += [f"    {power}" for power in described(sink_kind(kind))]
    return "\n".join(lines) + "\n"


def _setting(one: EffectiveSetting) -> dict[str, Any]:
    return {"path": one.path, "value": one.plain, "origin": one.origin}


def _line(setting: EffectiveSetting) -> str:
    mark = "*" if setting.origin is Origin.DEFAULT else " "
    return f"  {mark} {setting.path}: {setting.value}"
