"""Show what a sync will do: its tables, the stages of every DAG, and every setting with its origin."""

import argparse
import sys

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.explain import explain
from seamline.spec.effective import EffectiveSetting, Origin, effective_settings
from seamline.spec.faults import guess
from seamline.spec.load import Declarations, load_declarations, load_sync


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", help="name of the sync; all of them where left out")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON, as Spark receives it")


def run(args: argparse.Namespace) -> int:
    folder = settings.load().declarations
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
        sys.stdout.write(
            plan_to_json(plan) + "\n" if args.json else explain(plan) + "\n" + _settings(declarations, name)
        )
    return 0


def _settings(declarations: Declarations, name: str) -> str:
    sync = declarations.sync(name)
    lines = [f"settings of {name}  (* default)"]
    lines += [_line(setting) for setting in effective_settings(sync)]
    lines.append(f"settings of source {sync.source}  (* default)")
    lines += [_line(setting) for setting in effective_settings(declarations.sources[sync.source])]
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
