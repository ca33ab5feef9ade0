"""Show what a sync will do: its tables, the stages of every DAG, and every setting with its origin; or the bounds of
one business date."""

import argparse
import sys
from datetime import UTC, datetime

from seamline import settings
from seamline.cli.day import day_of_argument
from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.explain import explain
from seamline.plan.explain_date import explain_date
from seamline.spec.effective import EffectiveSetting, Origin, effective_settings
from seamline.spec.faults import guess
from seamline.spec.load import Declarations, load_declarations, load_sync
from seamline.spec.unlogged import is_of_streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", help="name of the sync; all of them where left out")
    parser.add_argument(
        "--date", metavar="DATE", help="the bounds of this business date, as 2026-11-25; needs the sync"
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON, as Spark receives it")


def run(args: argparse.Namespace) -> int:
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
    for name in declarations.syncs:
        plan = compile_plan(declarations, name)
        if day is not None:
            sys.stdout.write(explain_date(plan, day, now=datetime.now(UTC)))
            continue
        sys.stdout.write(
            plan_to_json(plan) + "\n" if args.json else explain(plan) + "\n" + _settings(declarations, name)
        )
    return 0


def _settings(declarations: Declarations, name: str) -> str:
    sync = declarations.sync(name)
    source = declarations.sources[sync.source]
    lines = [f"settings of {name}  (* default)"]
    lines += [_line(one) for one in effective_settings(sync) if source.has_log or not is_of_streams(one.path)]
    lines.append(f"settings of source {sync.source}  (* default)")
    lines += [_line(one) for one in effective_settings(source) if source.has_log or not is_of_streams(one.path)]
    for destination in sync.destinations:
        lines.append(f"settings of destination {destination}  (* default)")
        declared = declarations.destinations[destination]
        lines += [_line(setting) for setting in effective_settings(declared)]
        lines.append(f"powers of destination {destination}, kind {declared.kind}")
        lines += [f"    {power}" for power in described(sink_kind(declared.kind))]
    return "\n".join(lines) + "\n"


def _line(setting: EffectiveSetting) -> str:
    mark = "*" if setting.origin is Origin.DEFAULT else " "
    return f"  {mark} {setting.path}: {setting.value}"
