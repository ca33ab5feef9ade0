"""What `./seamline init` finds in a source: its tables, and how a sync could carry each."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase

from seamline import registry
from seamline.cli.init_text import FoundTable
from seamline.domain.catalogue import Table
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.server_found import ListedTable
from seamline.kinds.found import power, source_kind
from seamline.kinds.source import ListsTables
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.ports import Survey
from seamline.ports.separate import OpenedSide
from seamline.spec.fields import SQL_NAME
from seamline.sync.suite_proposal import Observed, observe
from seamline.sync.sync_proposal import proposed_entry

Note = Callable[[str], None]


def listed_tables(source: SourcePlan) -> Sequence[ListedTable]:
    """Without the marker table."""
    kind = power(source_kind(source.kind), ListsTables, to="list its tables")
    return [one for one in kind.list_tables(source) if one.name != source.marker_table]


def matching(listed: Sequence[ListedTable], namespace: str, patterns: str, note: Note) -> list[ListedTable]:
    """Those of `namespace` that match one of the patterns, which commas divide. ConfigError: none does."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    here = [one for one in listed if one.namespace == namespace]
    found = [one for one in here if any(fnmatchcase(one.name, pattern) for pattern in wanted)]
    if not found:
        names = ", ".join(one.name for one in here[:10]) or "none"
        raise ConfigError(f"no table of {namespace} matches `{patterns}`", hint=f"its tables: {names}")
    for one in found:
        if SQL_NAME.fullmatch(one.name) is None:
            note(f"{one.name!r} is left out: a declaration cannot write this name")
    elsewhere = {one.namespace for one in listed} - {namespace}
    if elsewhere:
        note(f"not looked at: schemas {', '.join(sorted(elsewhere))} (a sync may name their tables as schema.table)")
    return [one for one in found if SQL_NAME.fullmatch(one.name) is not None]


def examined_tables(plan: SyncPlan, listed: Sequence[ListedTable], note: Note) -> tuple[list[FoundTable], Survey]:
    """`plan`: of a draft that carries every listed table, in this order. Views are closed at the end."""
    side = registry.separate_source(plan)
    survey = side.survey([table.name for table in plan.tables])
    there = {table.name: table for table in survey.tables}
    with ExitStack() as ends:
        opened = _opened(side.open, survey.tables, note)
        for view in opened.views if opened else ():
            ends.callback(view.close)
        found = []
        for number, (one, planned) in enumerate(zip(listed, plan.tables, strict=True), start=1):
            table = there.get(planned.name)
            if table is None:
                found.append(FoundTable(one.name, one, trouble=_trouble(survey, planned.name)))
            else:
                observed = _observed(opened, table, note)
                found.append(FoundTable(one.name, one, table, proposed_entry(table, observed), observed=observed))
            if number % 100 == 0:
                sys.stderr.write(f"looked at {number:,} of {len(listed):,} tables\n")
    return found, survey


def _opened(
    open_: Callable[[Sequence[Table], int], OpenedSide], tables: Sequence[Table], note: Note
) -> OpenedSide | None:
    try:
        return open_(tables, 1) if tables else None
    except SeamlineError as exc:
        note(f"rows could not be looked at, so everything is proposed by the catalogue alone: {exc.message}")
        return None


def _observed(opened: OpenedSide | None, table: Table, note: Note) -> Observed:
    if opened is None:
        return Observed()
    try:
        return observe(opened.views[0], table)
    except SeamlineError as exc:
        note(f"{table.name}: by its catalogue alone, its rows could not be read: {exc.message}")
        return Observed()


def _trouble(survey: Survey, table: str) -> str:
    """In one line."""
    said = "; ".join(f"{one.what}. {one.cure}" for one in survey.problems if one.table == table)
    return "".join(letter if letter.isprintable() else " " for letter in said) or "it could not be looked at"


def troubles(found: Sequence[FoundTable]) -> Iterator[str]:
    for one in found:
        if one.trouble:
            yield f"{one.written} is parked: {one.trouble}"
