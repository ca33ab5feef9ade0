"""ports.Source for a database that is read by its JDBC driver: its catalogue by the driver's metadata."""

from collections.abc import Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.domain.catalogue import Column, Table, alterations
from seamline.domain.errors import TransientError
from seamline.plan.model import SourcePlan
from seamline.ports import Problem, Survey
from seamline.sources.jdbc.session import JdbcSession
from seamline.sources.jdbc.types import column_of, query_of, quoted
from seamline.spec.faults import guess

_TRIED = ("H2", "HSQL")


class JdbcSource:
    """Opens a session, and a JVM for it, per call."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source

    def survey(self, tables: Sequence[str]) -> Survey:
        with closing(JdbcSession(resolve(self._source.reader))) as session:
            return survey(session, self._source, tables)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        """Whether its transactions are serializable, and the login may read each table."""
        found: list[Problem] = []
        with closing(JdbcSession(resolve(self._source.reader))) as session:
            if not session.is_serializable:
                what = f"{session.product} has no serializable transactions by its driver: no read would be one moment"
                found.append(Problem(what, "use another driver, or a copy of the database that nobody writes to"))
            if not any(name in session.product for name in _TRIED):
                what = f"the database is {session.product}, on which Seamline was not run"
                cure = "try a copy of it first, with every type that your tables have"
                found.append(Problem(what, cure, is_fatal=False))
            found += [problem for table in tables if (problem := _unreadable(session, self._source, table))]
        return tuple(found)


def relation_of(session: JdbcSession, source: SourcePlan, table: str) -> str:
    """A table of the sync, as SQL names it there."""
    place = source.places.of(table)
    return f"{quoted(place.namespace, session.quote)}.{quoted(place.table, session.quote)}"


def _unreadable(session: JdbcSession, source: SourcePlan, table: Table) -> Problem | None:
    """By the very query that reads it."""
    query = query_of(table, relation_of(session, source, table.name), session.quote)
    try:
        list(session.batches(f"{query} WHERE 1 = 0"))
    except TransientError as exc:
        return Problem(f"table {table.name} cannot be read: {exc.message}", "grant SELECT on it", table=table.name)
    return None


def survey(session: JdbcSession, source: SourcePlan, tables: Sequence[str]) -> Survey:
    known = session.ask("tables", source.namespace)
    made: list[Table] = []
    problems: list[Problem] = []
    for name in tables:
        place = source.places.of(name)
        if place.table not in known:
            what = f"there is no table {place.table} in schema {source.namespace}"
            problems.append(Problem(what, guess(place.table, known), table=name))
            continue
        found = session.ask("columns", [source.namespace, place.table])
        columns = [column_of(one) for one in sorted(found["columns"], key=lambda one: one["ORDINAL_POSITION"])]
        problems += [
            Problem(one, "leave the table out of the sync", table=name) for one in columns if isinstance(one, str)
        ]
        kept = tuple(one for one in columns if isinstance(one, Column))
        if len(kept) == len(columns):
            made.append(Table(name, kept, tuple(found["key"])))
    return Survey(tuple(made), tuple(problems))


def open_source(source: SourcePlan) -> JdbcSource:
    return JdbcSource(source)
