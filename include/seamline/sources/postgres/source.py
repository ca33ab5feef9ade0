"""ports.Source for PostgreSQL: catalogue, preflight, markers, read views, each with the connection of its role."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from typing import Any

from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Table, alterations
from seamline.domain.day_closed import with_placeholders
from seamline.domain.errors import TransientError
from seamline.domain.source_backlog import SourceBacklog
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem, ReadView, Survey
from seamline.ports.questions import VALUES_MAX
from seamline.sources.postgres import catalogue, marker, preflight, preflight_facts, server_load, sessions, slots
from seamline.sources.postgres.client import open_session, role, translated
from seamline.sources.postgres.origin import undone_alterations
from seamline.sources.postgres.position import PostgresPosition


class PostgresSource:
    """Opens a session per call: nothing is held between calls, so a changed password needs no restart."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source

    def survey(self, tables: Sequence[str]) -> Survey:
        connection = role(self._source, self._source.reader)
        with closing(open_session(connection)) as session, translated(connection):
            return catalogue.survey(session, self._source, tables)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        pairs = list(zip(planned, now, strict=True))
        return [text for old, new in pairs for text in (*alterations(old, new), *undone_alterations(old, new))]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        source = self._source
        if not source.has_log:
            return preflight.check_unlogged(
                preflight_facts.gather_read(source, tables, reader=role(source, source.reader))
            )
        facts = preflight_facts.gather(
            source,
            tables,
            reader=role(source, source.reader),
            capture=role(source, source.capture),
            marker=role(source, source.marker),
        )
        return preflight.check(facts)

    def commit_marker(self, one: Marker) -> None:
        source = self._source
        marker.commit_marker(role(source, source.marker), source.schema, source.marker_table, one)

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:
        source = self._source
        connection = role(source, source.marker)
        return marker.prune_markers(
            connection, source.schema, source.marker_table, older_than_s=older_than_s, rows_max=rows_max
        )

    def seed_position(self) -> PostgresPosition:
        """Where the capture's slot begins; makes it. Every change that commits from now on comes through it."""
        source = self._source
        return PostgresPosition(lsn=slots.capture_start(role(source, source.capture), source.slot))

    def backlog(self, place: Mapping[str, object]) -> SourceBacklog:  # noqa: ARG002 (its slot knows it)
        connection = role(self._source, self._source.marker)
        with closing(open_session(connection)) as session, translated(connection):
            return slots.slot_backlog(session, self._source.slot)

    def let_go(self) -> None:
        """Drop the capture's slot, which keeps the server's log."""
        slot = self._source.slot
        try:
            slots.drop_slot(role(self._source, self._source.capture), slot)
        except TransientError as exc:
            raise TransientError(
                f"slot {slot} could not be dropped: {exc}",
                hint="the capture is given up all the same; if that server lives on, it keeps its log until then:"
                f" SELECT pg_drop_replication_slot('{slot}')",
            ) from exc

    def running(self) -> int:
        connection = role(self._source, self._source.reader)
        with closing(open_session(connection)) as session, translated(connection):
            return server_load.running(session, self._source.reader)

    def replica_lag_s(self) -> float | None:
        connection = role(self._source, self._source.reader)
        with closing(open_session(connection)) as session, translated(connection):
            return server_load.replica_lag_s(session, self._source.reader)

    def open_views(self, count: int) -> Sequence[ReadView]:
        return sessions.open_views(self._source, count)

    def ask(self, statement: str, business_date: date) -> Sequence[Sequence[Any]]:
        text, count = with_placeholders(statement)
        return self._read_only(text, (business_date,) * count)

    def values_of(self, table: str, column: str) -> Sequence[Any]:
        place = TablePlace.declared(table, self._source.namespace)
        text = f"SELECT {quoted(column)} FROM {quoted(place.namespace)}.{quoted(place.table)} LIMIT {VALUES_MAX}"
        return [row[0] for row in self._read_only(text)]

    def _read_only(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        connection = role(self._source, self._source.reader)
        settings = ("default_transaction_read_only=on",)
        with closing(open_session(connection, settings=settings)) as session, translated(connection):
            # A query names its tables as the sync does.
            session.execute("SELECT set_config('search_path', %s, false)", (quoted(self._source.schema),))
            return session.execute(statement.encode(), values or None).fetchall()


def open_source(source: SourcePlan) -> PostgresSource:
    return PostgresSource(source)
