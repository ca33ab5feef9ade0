"""The tables of a sync, each with what was found of it last; or those of the database behind a connection.

Of a sync: what it declares of each table, and the newest verdict of its live tables in each destination. Of a
connection, or a source: every table that its login sees, with the server's own estimates and which syncs carry it.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from seamline import registry, settings
from seamline.adapters.connections import known_ids, resolve
from seamline.cli import seen
from seamline.cli.answer import give
from seamline.cli.connect import examined
from seamline.domain.errors import ConfigError
from seamline.domain.runs import Reconciliation
from seamline.domain.server_found import ListedTable
from seamline.kinds.found import power, source_kind
from seamline.kinds.source import ListsTables
from seamline.plan.compile import compile_plan
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.spec.faults import guess
from seamline.spec.load import Declarations, load_each, load_sync, read_folder

_MB = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of a sync, else of a connection or a source")


def run(args: argparse.Namespace) -> int:
    folder = settings.load().declarations
    file = folder / "syncs" / f"{args.name}.yaml"
    if file.is_file():
        rows = _of_sync(compile_plan(load_sync(file), args.name))
        give(args, {"sync": args.name, "tables": rows})
        lines = list(_sync_lines(rows))
    else:
        listed = _of_connection(_connection(args.name))
        give(args, {"connection": args.name, "tables": listed})
        lines = [_listed_line(one) for one in listed]
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "there are no tables\n")
    return 0


def _of_sync(plan: SyncPlan) -> list[dict[str, Any]]:
    """In the order of the declaration, the parked ones behind them."""
    with closing(registry.platform()) as store:
        live = seen.newest_verdicts(store, plan.sync).live
    carried = [
        {
            "table": one.name,
            "place": plan.source.places.of(one.name).text,
            "business_date": one.business_date.column if one.business_date else None,
            "parked": None,
            "verdicts": _verdicts(one.name, plan, live),
        }
        for one in plan.tables
    ]
    parked: list[dict[str, Any]] = [
        {"table": one.name, "place": None, "business_date": None, "parked": one.verdict.reason, "verdicts": {}}
        for one in plan.parked
    ]
    return [*carried, *parked]


def _verdicts(table: str, plan: SyncPlan, live: Sequence[Reconciliation]) -> dict[str, Any]:
    """By destination; None where the table was not compared there."""
    found: dict[str, Any] = dict.fromkeys(one.name for one in plan.destinations)
    for one in live:
        for mine in one.tables:
            if mine.table == table and found.get(one.destination) is None:
                found[one.destination] = {
                    "verdict": mine.verdict,
                    "rows": mine.source_rows,
                    "reason": mine.reason,
                    "compared_at": one.ended_at,
                }
    return found


def _sync_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    wide = max((len(one["table"]) for one in rows), default=0)
    for one in rows:
        if one["parked"]:
            yield f"{one['table']:<{wide}}  {one['parked']}"
            continue
        date = f"by {one['business_date']}" if one["business_date"] else "whole"
        said = ", ".join(_in_words(name, found) for name, found in one["verdicts"].items())
        yield f"{one['table']:<{wide}}  {date}; {said}"


def _in_words(destination: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return f"{destination}: not compared yet"
    rows = "" if found["rows"] is None else f", {found['rows']:,} rows"
    reason = f" ({found['reason']})" if found["reason"] else ""
    return f"{destination}: {found['verdict'].value}{rows}{reason}"


def _connection(name: str) -> str:
    """The id, or that of the source of this name."""
    sources = {one: file.spec.connection for one, file in read_folder(settings.load().declarations).sources.items()
               if file.spec is not None}  # fmt: skip
    if name in known_ids():
        return name
    if name in sources:
        return sources[name]
    syncs = [file.stem for file in (settings.load().declarations / "syncs").glob("*.yaml")]
    known = sorted({*known_ids(), *sources, *syncs})
    raise ConfigError(f"there is no sync, no source and no connection `{name}`", hint=guess(name, known))


def _of_connection(connection_id: str) -> list[dict[str, Any]]:
    connection = resolve(connection_id)
    kind = examined(connection).kind
    if not kind or not connection.database:
        raise ConfigError(
            f"connection `{connection_id}` leads to no database whose tables can be listed",
            hint="name one of a database: kind://login@host/database",
        )
    source = SourcePlan(
        name=connection_id,
        kind=kind,
        database=connection.database,
        reader=connection_id,
        capture=connection_id,
        marker=connection_id,
        log_topic="",
        connector="",
    )
    carried = _carried(connection_id)
    found = power(source_kind(kind), ListsTables, to="list its tables").list_tables(source)
    return [_listed(one, carried.get((one.namespace, one.name), [])) for one in found]


def _carried(connection_id: str) -> dict[tuple[str, str], list[str]]:
    """By schema and table the syncs that read it through this connection, of those whose files are right."""
    found: dict[tuple[str, str], list[str]] = {}
    for file, declared in load_each(settings.load().declarations).items():
        if not isinstance(declared, Declarations):
            continue
        plan = compile_plan(declared, file.stem)
        if plan.source.reader == connection_id:
            for table in plan.tables:
                place = plan.source.places.of(table.name)
                found.setdefault((place.namespace, place.table), []).append(plan.sync)
    return found


def _listed(one: ListedTable, syncs: list[str]) -> dict[str, Any]:
    return {"namespace": one.namespace, "table": one.name, "rows": one.rows, "size": one.size, "syncs": syncs}


def _listed_line(one: dict[str, Any]) -> str:
    rows = "rows not known" if one["rows"] is None else f"about {one['rows']:,} rows"
    size = "" if one["size"] is None else f", {one['size'] / _MB:,.1f} MB"
    by = f", carried by {', '.join(one['syncs'])}" if one["syncs"] else ""
    return f"{one['namespace']}.{one['table']}  {rows}{size}{by}"
