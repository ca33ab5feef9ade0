"""Tables of several databases of one server: each database is asked by a session of its own."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import Server, Session
from seamline.domain.catalogue import Table
from seamline.domain.names import NameLimit, fitted_name
from seamline.domain.table_places import TablePlaces
from seamline.ports import Problem, Survey

SurveyOne = Callable[["Session[Any]", str, Sequence[str]], Survey]


def in_databases(places: TablePlaces, names: Sequence[str]) -> Mapping[str, dict[str, str]]:
    """By database: what its tables are called there → their name in the sync."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        place = places.of(name)
        found.setdefault(place.namespace, {})[place.table] = name
    return found


def survey_of(
    server: Server,
    connection: Connection,
    places: TablePlaces,
    names: Sequence[str],
    survey_one: SurveyOne,
    *,
    limits: Collection[NameLimit] = (),
) -> Survey:
    """The survey of these tables of a sync, in the order asked. `limits`: of the names of columns."""
    tables: dict[str, Table] = {}
    problems: list[Problem] = []
    for database, called in in_databases(places, names).items():
        found = _survey_in(server, replace(connection, database=database), list(called), survey_one)
        tables |= {called[table.name]: _called(table, called[table.name], limits) for table in found.tables}
        problems += renamed(found.problems, called)
    return Survey(tuple(tables[name] for name in names if name in tables), tuple(problems))


def renamed(problems: Sequence[Problem], called: Mapping[str, str]) -> Iterator[Problem]:
    """The problems, each of the table that the sync calls so."""
    return (replace(problem, table=called.get(problem.table, problem.table)) for problem in problems)


def _called(table: Table, name: str, limits: Collection[NameLimit]) -> Table:
    """The table as the sync calls it and its columns."""
    names = {column.name: fitted_name(column.name, limits) for column in table.columns}
    columns = tuple(
        column
        if names[column.name] == column.name
        else replace(column, name=names[column.name], source_name=column.name)
        for column in table.columns
    )
    return replace(table, name=name, columns=columns, key=tuple(names[column] for column in table.key))


def _survey_in(server: Server, connection: Connection, tables: Sequence[str], survey_one: SurveyOne) -> Survey:
    with closing(server.open_session(connection)) as session:
        try:
            return survey_one(session, connection.database, tables)
        except pymysql.err.MySQLError as exc:
            raise server.translated(exc, connection) from exc
