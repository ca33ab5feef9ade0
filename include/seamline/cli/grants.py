"""Print the statements that the owner of a source's database runs once: logins, marker table, grants of each role."""

import argparse
import sys

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.adapters.mariadb.grants import Logins, grant_script
from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.plan.model import SourcePlan
from seamline.spec.faults import guess
from seamline.spec.load import load_declarations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="name of the source; its tables are those of all its syncs")


def run(args: argparse.Namespace) -> int:
    declarations = load_declarations(settings.load().declarations)
    plans = [compile_plan(declarations, name) for name in declarations.syncs]
    mine = [plan for plan in plans if plan.source.name == args.source]
    if not mine:
        known = sorted({plan.source.name for plan in plans})
        raise ConfigError(f"no sync has a source `{args.source}`", hint=guess(args.source, known))
    source = mine[0].source
    tables = sorted({table.name for plan in mine for table in plan.tables})
    sys.stdout.write(
        grant_script(
            source.database,
            tables,
            logins=_logins(source),
            marker_table=source.marker_table,
            snapshot_lock=source.snapshot_lock,
        )
    )
    return 0


def _logins(source: SourcePlan) -> Logins:
    """The logins of the roles' connections, where those are known already."""
    default = Logins()
    return Logins(
        capture=_login(source.capture) or default.capture,
        reader=_login(source.reader) or default.reader,
        marker=_login(source.marker) or default.marker,
    )


def _login(connection_id: str) -> str:
    try:
        return resolve(connection_id).login
    except ConfigError:
        return ""
