"""`ports.Source` over files: tables as they are declared, or as the newest control file describes them."""

import difflib
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date

from seamline.domain.catalogue import Table, alterations
from seamline.domain.day_closed import Look
from seamline.domain.errors import ConfigError, TerminalError
from seamline.files.stores.opening import open_store
from seamline.plan.model import SourcePlan
from seamline.ports import Problem, Survey
from seamline.sources.files.control import PromisedTable
from seamline.sources.files.delivery import NotThere, find, newest_control
from seamline.sources.files.layout import layout_of


class FilesSource:
    """`ports.Source`. The place is opened for each question."""

    def __init__(self, source: SourcePlan) -> None:
        self._layout = layout_of(source)

    def survey(self, tables: Sequence[str]) -> Survey:
        declared = {one.table: one.definition for one in self._layout.tables if one.definition}
        described = {} if all(name in declared for name in tables) else self._described()
        found, problems = list[Table](), list[Problem]()
        for name in tables:
            promised = described.get(name)
            definition = declared.get(name) or (promised.definition if promised else None)
            if definition is not None:
                found.append(definition)
            else:
                problems.append(self._unknown(name, [*declared, *described], is_named=promised is not None))
        return Survey(tuple(found), tuple(problems))

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:  # noqa: ARG002
        """Whether the place answers. TransientError where it does not."""
        try:
            with closing(open_store(self._layout.location, self._layout.connection)) as store:
                store.names("")
        except ConfigError as exc:
            return (Problem(exc.message, exc.hint),)
        return ()

    def look(self, business_date: date, tables: Sequence[str]) -> Look:
        """Whether the delivery of a date is there. What is wrong with it, its read says."""
        with closing(open_store(self._layout.location, self._layout.connection)) as store:
            try:
                found = find(store, self._layout, business_date, tables)
            except TerminalError:
                return Look(is_closed=True)
        return Look(is_closed=False, seen=found.seen) if isinstance(found, NotThere) else Look(is_closed=True)

    def _described(self) -> Mapping[str, PromisedTable]:
        if not self._layout.control_file:
            return {}
        with closing(open_store(self._layout.location, self._layout.connection)) as store:
            newest = newest_control(store, self._layout)
        return newest[1].tables if newest else {}

    def _unknown(self, name: str, known: Sequence[str], *, is_named: bool) -> Problem:
        if is_named:
            cure = "declare `columns` of the table in the source's declaration, or let the control file describe them"
            return Problem(f"the newest control file does not describe the columns of {name}", cure, table=name)
        if not known and self._layout.control_file:
            cure = "declare `tables` with their columns, or begin once the first delivery is there"
            return Problem(f"no control file below {self._layout.location} describes {name}", cure, table=name)
        near = difflib.get_close_matches(name, known, n=1)
        cure = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(sorted(known)) or 'none'}"
        return Problem(f"no file of table {name} is declared or described", cure, table=name)
