"""ports.Source for MariaDB and MySQL: catalogue, preflight, markers, views, each with the connection of its role."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar, TypeVar

import pymysql

from seamline.databases.mysql import server_load
from seamline.databases.mysql.backlog import binlog_backlog
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, query, role
from seamline.databases.mysql.marker import delete_markers, insert_marker
from seamline.databases.mysql.preflight import Rule, problems
from seamline.databases.mysql.preflight_facts import Questions
from seamline.databases.mysql.reading import Reading
from seamline.databases.mysql.several_databases import in_databases, renamed, survey_of
from seamline.domain.catalogue import Table, alterations
from seamline.domain.day_closed import with_placeholders
from seamline.domain.position import Position
from seamline.domain.source_backlog import SourceBacklog
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem, ReadView, Survey
from seamline.ports.questions import VALUES_MAX

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Preflight:
    """`of_tables`: the rules of a database beside the source's own; `without_log`: those of a source without a log."""

    questions: Questions
    rules: Sequence[Rule]
    of_tables: Sequence[Rule]
    without_log: Sequence[Rule]


class BinlogSource:
    """Opens a session per call: nothing is held between calls, so a changed password needs no restart."""

    reading: ClassVar[Reading]
    judged: ClassVar[Preflight]

    def __init__(self, source: SourcePlan) -> None:
        self._source = source

    def survey(self, tables: Sequence[str]) -> Survey:
        source, reading = self._source, self.reading
        connection = role(source, source.reader)
        return survey_of(reading.server, connection, source.places, tables, reading.survey, limits=source.limits)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        source, judged = self._source, self.judged
        called = in_databases(source.places, [table.name for table in tables])
        if not source.has_log:
            return self._preflight_without_log(called)
        own = called.get(source.database, {})
        of_server = judged.questions.gather(source, list(own))
        found = [*renamed(problems(of_server, judged.rules), own)]
        reader, capture = role(source, source.reader), role(source, source.capture)
        for database in source.databases:
            here = called.get(database, {})
            facts = judged.questions.gather_tables(database, list(here), reader=reader, capture=capture)
            facts = replace(facts, variables=of_server.variables, brief_lock=of_server.brief_lock)
            found += renamed(problems(facts, judged.of_tables), here)
        return tuple(dict.fromkeys(found))

    def _preflight_without_log(self, called: Mapping[str, Mapping[str, str]]) -> tuple[Problem, ...]:
        source, judged = self._source, self.judged
        found: list[Problem] = []
        for database in (source.database, *source.databases):
            here = called.get(database, {})
            facts = judged.questions.gather_read(database, list(here), reader=role(source, source.reader))
            found += renamed(problems(facts, judged.without_log), here)
        return tuple(dict.fromkeys(found))

    def commit_marker(self, one: Marker) -> None:
        """Returns after the commit. A repeat with the same id is a no-op."""
        self._asked(self._source.marker, lambda session: insert_marker(session, self._source.marker_table, one))

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:
        table = self._source.marker_table
        return self._asked(
            self._source.marker,
            lambda session: delete_markers(session, table, older_than_s=older_than_s, rows_max=rows_max),
        )

    def seed_position(self) -> Position:
        """The position of a consistent snapshot: everything before it is committed, everything after comes."""
        (view,) = self.open_views(1)
        with closing(view):
            return view.position

    def backlog(self, place: Mapping[str, object]) -> SourceBacklog:
        return self._asked(self._source.capture, lambda session: binlog_backlog(session, place))

    def let_go(self) -> None:
        """Nothing: the server knows of no capture."""

    def running(self) -> int:
        return self._asked(self._source.reader, server_load.running)

    def replica_lag_s(self) -> float | None:
        return self._asked(self._source.reader, server_load.replica_lag_s)

    def open_views(self, count: int) -> Sequence[ReadView]:
        return self.reading.open_views(self._source, count)

    def ask(self, statement: str, business_date: date) -> Sequence[Sequence[Any]]:
        text, count = with_placeholders(statement)
        return self._asked(self._source.reader, lambda session: _read_only(session, text, (business_date,) * count))

    def values_of(self, table: str, column: str) -> Sequence[Any]:
        place = TablePlace.declared(table, self._source.namespace)
        text = f"SELECT {quoted(column)} FROM {quoted(place.namespace)}.{quoted(place.table)} LIMIT {VALUES_MAX}"
        return [row[0] for row in self._asked(self._source.reader, lambda session: _read_only(session, text))]

    def _asked(self, connection_id: str, ask: "Callable[[Session[Any]], AnswerT]") -> AnswerT:
        connection, server = role(self._source, connection_id), self.reading.server
        with closing(server.open_session(connection)) as session:
            try:
                return ask(session)
            except pymysql.err.MySQLError as exc:
                raise server.translated(exc, connection) from exc


def _read_only(session: "Session[Any]", statement: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
    query(session, "SET SESSION TRANSACTION READ ONLY")
    return query(session, statement, values)
