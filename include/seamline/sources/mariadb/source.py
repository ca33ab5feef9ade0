"""ports.Source for MariaDB: catalogue, preflight, markers, read views, each with the connection of its role."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

import pymysql

from seamline.databases.mysql.client import MARIADB, Session, open_session, role, translated
from seamline.databases.mysql.marker import delete_markers, insert_marker
from seamline.databases.mysql.several_databases import in_databases, renamed, survey_of
from seamline.domain.catalogue import Table, alterations
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem, ReadView, Survey
from seamline.sources.mariadb import catalogue, preflight, preflight_facts
from seamline.sources.mariadb.sessions import open_views

AnswerT = TypeVar("AnswerT")


class MariaDbSource:
    """Opens a session per call: nothing is held between calls, so a changed password needs no restart."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source

    def survey(self, tables: Sequence[str]) -> Survey:
        connection = role(self._source, self._source.reader)
        return survey_of(MARIADB, connection, self._source.places, tables, catalogue.survey, limits=self._source.limits)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        source = self._source
        called = in_databases(source.places, [table.name for table in tables])
        reader, capture = role(source, source.reader), role(source, source.capture)
        facts = preflight_facts.gather(
            database=source.database,
            tables=list(called.get(source.database, ())),
            marker_table=source.marker_table,
            reader=reader,
            capture=capture,
            marker=role(source, source.marker),
            snapshot_lock=source.snapshot_lock,
        )
        problems = [*renamed(preflight.check(facts), called.get(source.database, {}))]
        for database in source.databases:
            here = called.get(database, {})
            found = preflight_facts.gather_tables(database=database, tables=list(here), reader=reader, capture=capture)
            problems += renamed(preflight.check_tables(found), here)
        return tuple(dict.fromkeys(problems))

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
        (view,) = open_views(self._source, 1)
        with closing(view):
            return view.position

    def let_go(self) -> None:
        """Nothing: the server knows of no capture."""

    def open_views(self, count: int) -> Sequence[ReadView]:
        return open_views(self._source, count)

    def _asked(self, connection_id: str, ask: "Callable[[Session[Any]], AnswerT]") -> AnswerT:
        connection = role(self._source, connection_id)
        with closing(open_session(connection)) as session:
            try:
                return ask(session)
            except pymysql.err.MySQLError as exc:
                raise translated(exc, connection) from exc


def open_source(source: SourcePlan) -> MariaDbSource:
    return MariaDbSource(source)
