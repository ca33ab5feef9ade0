"""Print the statements that the owner of a source's or destination's database runs once: logins, marker table, grants
of each role."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.cli.answer import give
from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind, source_kind
from seamline.kinds.logins import DestinationLogins, logins_of
from seamline.kinds.sink import ReadsAlone
from seamline.plan.compile import compile_plan, destination_plan
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.spec.faults import guess
from seamline.spec.load import load_declarations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of a source, whose tables are those of all its syncs, or of a destination")


def run(args: argparse.Namespace) -> int:
    declarations = load_declarations(settings.load().declarations)
    plans = [compile_plan(declarations, name) for name in declarations.syncs]
    comparing = [plan for plan in plans if plan.reconcile_only is not None]
    script = "".join(_only_reads(plan, args.name) for plan in comparing)
    plans = [plan for plan in plans if plan not in comparing]
    mine = [plan for plan in plans if plan.source.name == args.name]
    if mine:
        tables = sorted({plan.source.places.captured(table.name) for plan in mine for table in plan.tables})
        script += _script(mine[0].source, tables)
    destination = declarations.destinations.get(args.name)
    is_read = any(args.name in (plan.source.name, *plan.destination_names) for plan in comparing)
    is_written = any(args.name in plan.destination_names for plan in plans)
    if destination is not None and (is_written or not is_read):
        script += _destination_script(destination_plan(destination))
    if not mine and not is_read and destination is None:
        known = sorted({plan.source.name for plan in plans} | declarations.destinations.keys())
        raise ConfigError(
            f"there is no source of a sync and no destination `{args.name}`", hint=guess(args.name, known)
        )
    sys.stdout.write(script)
    give(args, {"name": args.name, "script": script})
    return 0


def _only_reads(plan: SyncPlan, name: str) -> str:
    """What a sync that only compares needs on this side of it; "" where the name is of neither."""
    tables = [table.name for table in plan.tables]
    if name == plan.source.name:
        connection, rights = plan.source.reader, _select(plan.source.places.of(table).text for table in tables)
    elif name in plan.destination_names:
        one = plan.destination(name)
        kind = sink_kind(one.kind)
        if isinstance(kind, ReadsAlone):
            rights = kind.separate_rights(one, tables)
        else:
            rights = _select(f"{one.namespace}.{table}" for table in tables)
        connection = one.connection
    else:
        return ""
    login = _login(connection) or f"of connection {connection}"
    return f"-- Sync {plan.sync} only compares. Login {login} needs {rights}\n"


def _select(places: Iterable[str]) -> str:
    return f"SELECT on these tables, in PostgreSQL also USAGE on their schema, and nothing more: {', '.join(places)}"


def _destination_script(plan: DestinationPlan) -> str:
    names = DestinationLogins()
    writer = _login(plan.writer) or names.writer
    publisher = writer if plan.writer == plan.connection else _login(plan.connection) or names.publisher
    logins = DestinationLogins(publisher, writer)
    return sink_kind(plan.kind).grant_script(plan, _database(plan.connection), logins=logins)


def _script(source: SourcePlan, tables: Sequence[str]) -> str:
    logins = replace(logins_of(source.name), **_known_logins(source))
    return source_kind(source.kind).grant_script(source, tables, logins=logins)


def _known_logins(source: SourcePlan) -> dict[str, str]:
    """Role → login of its connection, where that is known already."""
    roles = {"capture": source.capture, "reader": source.reader, "marker": source.marker}
    return {role: login for role, connection_id in roles.items() if connection_id and (login := _login(connection_id))}


def _login(connection_id: str) -> str:
    known = _known(connection_id)
    return known.login if known else ""


def _database(connection_id: str) -> str:
    known = _known(connection_id)
    return known.database if known else ""


def _known(connection_id: str) -> Connection | None:
    try:
        return resolve(connection_id)
    except ConfigError:
        return None
