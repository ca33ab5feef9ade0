"""Check the declarations: every mistake at once, each with file, line and cure.

Of transforms it is looked whether their files are SQL, or Python. With --online also what servers deny: tables and
columns that are not there or cannot be summed, connections that lead nowhere, rights that are missing, live tables
that would not take a load, approvers whom Airflow does not know; and Spark analyses the transforms over the source's
columns, as preflight does. What is asked now is said on the error output, but with --json.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters.connections import known_types
from seamline.adapters.signing import signer_of
from seamline.cli import online
from seamline.cli.answer import give
from seamline.domain.errors import ConfigError
from seamline.domain.separate import COMPARED_ONLY
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.faults import IN_DECLARATIONS, OR_AT_SERVERS, DeclarationsInvalid, Fault
from seamline.spec.load import Declarations, load_declarations, load_each
from seamline.spec.transform_syntax import syntax_faults
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "The folder is include/ of the checkout, or SEAMLINE_DECLARATIONS."
    parser.add_argument("--online", action="store_true", help="ask sources, destinations and Airflow's settings, too")


def run(args: argparse.Namespace) -> int:
    connections = known_types()
    layout = Layout(settings.load())
    folder = layout.settings.declarations
    faults, declarations = _found(folder, connections)
    faults += _of_signing_key(layout.settings.signing_key)
    if declarations is None and not args.online:
        raise DeclarationsInvalid(faults)
    notes: list[str] = []
    if args.online:
        # One document and nothing beside it where a program asks.
        notes, denied = _denied(layout, (lambda _: None) if args.json else Progress(out=sys.stderr).say)
        faults += denied
    if faults or declarations is None:
        where = OR_AT_SERVERS if args.online else IN_DECLARATIONS
        raise DeclarationsInvalid(dict.fromkeys(faults), where=where)
    if not declarations.syncs:
        raise ConfigError(
            f"no sync is declared in {folder / 'syncs'}",
            hint="SEAMLINE_DECLARATIONS names the folder that holds sources/, destinations/ and syncs/",
        )
    if not connections:
        sys.stdout.write("connections were not looked up: there are none here yet (`seamline up` makes some)\n")
    plans = [compile_plan(declarations, name) for name in declarations.syncs]
    for plan in plans:
        targets = ", ".join(destination.name for destination in plan.destinations)
        parked = f" and {len(plan.parked)} parked" if plan.parked else ""
        tables = f"{len(plan.tables)} tables{parked}"
        promise = COMPARED_ONLY if plan.reconcile_only else plan.guarantee
        sys.stdout.write(f"{plan.sync}: {tables}, {plan.source.name} → {targets}, {promise}\n")
    sys.stdout.write(
        f"ok: sources {len(declarations.sources)}, destinations {len(declarations.destinations)}, "
        f"syncs {len(declarations.syncs)}, suites {len(declarations.expectations)}"
        f"{f', calendars {len(declarations.calendars)}' if declarations.calendars else ''}"
        f"{', as the servers say too' if args.online else '; servers were not asked (--online asks them)'}\n"
    )
    give(args, {"folder": str(folder), "online": args.online, "notes": notes, "syncs": list(map(_document, plans))})
    return 0


def _document(plan: SyncPlan) -> dict[str, Any]:
    return {
        "sync": plan.sync,
        "source": plan.source.name,
        "destinations": [one.name for one in plan.destinations],
        "tables": [one.name for one in plan.tables],
        "parked": [one.name for one in plan.parked],
        "promise": COMPARED_ONLY if plan.reconcile_only else plan.guarantee,
    }


def _found(folder: Path, connections: Mapping[str, str]) -> tuple[list[Fault], Declarations | None]:
    """What is wrong without any server, and the declarations where they are right but for texts of transforms."""
    try:
        declarations = load_declarations(folder, connections=connections)
    except DeclarationsInvalid as exc:
        return list(exc.faults), None
    return syntax_faults(declarations, folder), declarations


def _of_signing_key(key: Path | None) -> list[Fault]:
    """Else only who takes an export away would hear of it."""
    if key is None:
        return []
    try:
        signer_of(key)
    except ConfigError as exc:
        return [Fault(key, 1, "SEAMLINE_SIGNING_KEY", exc.message, exc.hint)]
    return []


def _denied(layout: Layout, on_step: online.OnStep) -> tuple[list[str], list[Fault]]:
    """What must be said, and what servers deny, of each sync that is right by itself."""
    found = online.Answers()
    for file, declared in load_each(layout.settings.declarations).items():
        if isinstance(declared, Declarations):
            found.add(online.ask(declared, file.stem, layout, on_step=on_step))
    sys.stdout.write("".join(f"note: {note}\n" for note in found.notes))
    return list(found.notes), found.faults
