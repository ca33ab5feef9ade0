"""Check the declarations: every mistake at once, each with file, line and cure."""

import argparse
import sys

from seamline import settings
from seamline.adapters.connections import known_types
from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.spec.load import load_declarations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "The folder is include/ of the checkout, or SEAMLINE_DECLARATIONS. Servers are not asked."


def run(args: argparse.Namespace) -> int:
    connections = known_types()
    folder = settings.load().declarations
    declarations = load_declarations(folder, connections=connections)
    if not declarations.syncs:
        raise ConfigError(
            f"no sync is declared in {folder / 'syncs'}",
            hint="SEAMLINE_DECLARATIONS names the folder that holds sources/, destinations/ and syncs/",
        )
    if not connections:
        sys.stdout.write("connections were not looked up: there are none here yet (`seamline up` makes some)\n")
    for name in declarations.syncs:
        plan = compile_plan(declarations, name)
        targets = ", ".join(destination.name for destination in plan.destinations)
        parked = f" and {len(plan.parked)} parked" if plan.parked else ""
        tables = f"{len(plan.tables)} tables{parked}"
        sys.stdout.write(f"{name}: {tables}, {plan.source.name} → {targets}, {plan.guarantee}\n")
    sys.stdout.write(
        f"ok: sources {len(declarations.sources)}, destinations {len(declarations.destinations)}, "
        f"syncs {len(declarations.syncs)}, suites {len(declarations.expectations)}\n"
    )
    return 0
