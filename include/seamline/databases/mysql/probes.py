"""Probe tables in a source of MariaDB or MySQL, made and dropped by the owner of its tables: `ProbeSource` of
sync.certify."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pymysql

from seamline.adapters.hanging import QUESTION_S
from seamline.adapters.probe_statements import transactions
from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.databases.mysql.client import Server, Session, query, role
from seamline.databases.mysql.edge_values import LIMITS
from seamline.databases.mysql.marker import create_statement
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused, TransientError
from seamline.domain.probe import KEY, Default, Probe, ProbePath
from seamline.plan.model import SourcePlan

_TRIAL = quoted("seamline_certify_trial")


class BinlogProbes(ABC):
    """One session of the owner, whose connection is the plan's reader. It holds a lock: one certificate at a time."""

    server: ClassVar[Server]
    # A byte of a character set. What is no letter there must be no error.
    read_as: ClassVar[str]

    def __init__(self, source: SourcePlan) -> None:
        self._source = source
        self._connection = role(source, source.reader)
        self._mark = f"made by seamline {source.name}"
        self._session = self._opened()
        try:
            self._take_lock()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _edge_values_of(self, column: Column, letters: str) -> Sequence[str]:
        """The literals of a column. `letters`: all that a small character set of a text column has."""

    @abstractmethod
    def _defaults_of(self, table: Table) -> Mapping[str, Default]:
        """By column, those that are there, as SQL says them."""

    def version(self) -> str:
        return f"{self.server.name} {self._rows('SELECT VERSION()')[0][0]}"

    def edge_values(self, table: Table) -> Mapping[str, Sequence[str]]:
        rows = self._rows(
            "SELECT c.column_name, s.character_set_name FROM information_schema.columns c"
            " JOIN information_schema.character_sets s USING (character_set_name)"
            f" WHERE {self._is_at(table.name)} AND s.maxlen = 1 AND c.data_type NOT IN ('enum', 'set')"
        )
        letters = {str(name): self._letters(str(charset)) for name, charset in rows}
        return {column.name: self._edge_values_of(column, letters.get(column.name, "")) for column in table.columns}

    def defaults(self, table: Table) -> Mapping[str, Default]:
        texts = self._texts(table.name)
        return {
            name: self._tried(table.column(name), texts.get(name, ""), default)
            for name, default in self._defaults_of(table).items()
        }

    def limits(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        return LIMITS

    def refusals(self, table: Table, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        """Literal → why the server refuses it. A temporary table is not in the binlog."""
        name, found = quoted(column.name), {}
        # Not by a SELECT from the table: it would bring the default along, which may read other columns.
        self._execute(*_trial(column, self._texts(table.name).get(column.name, ""), None))
        with self._lenient(is_wanted=column.kind is Kind.ENUM):
            for literal in literals:
                try:
                    query(self._session, f"INSERT INTO {_TRIAL} ({name}) VALUES ({literal})")
                except pymysql.err.MySQLError as exc:
                    if isinstance(error := self.server.translated(exc, self._connection), TransientError):
                        raise error from exc
                    found[literal] = str(exc.args[-1])
        self._execute(f"DROP TEMPORARY TABLE {_TRIAL}")
        return found

    def make(self, probes: Sequence[Probe]) -> None:
        """One table per probe, with the columns of the user's and their defaults: no key but its own, no check or
        trigger."""
        marker = self._source.marker_table
        self._execute(create_statement(marker), f"ALTER TABLE {quoted(marker)} COMMENT='{self._mark}'")
        for probe in probes:
            if self._exists(probe.name):
                raise Refused(
                    f"table {probe.name} is in the way and was not made by `seamline certify`", hint="rename or drop it"
                )
            texts = self._texts(probe.of.name)
            columns = ", ".join(
                _definition(column, texts.get(column.name, ""), probe.defaults.get(column.name))
                for column in probe.columns
            )
            self._execute(
                f"CREATE TABLE {quoted(probe.name)} ({quoted(KEY)} int NOT NULL PRIMARY KEY, {columns})"
                f" ENGINE=InnoDB COMMENT='{self._mark}'"
            )

    def write(self, probe: Probe, path: ProbePath) -> None:
        with self._lenient(is_wanted=True):
            for statements in transactions(probe, path, place=quoted(probe.name), quoted=quoted):
                self._execute("BEGIN", *statements, "COMMIT")

    def drop(self) -> None:
        """Every table that was made for this sync, also by a certificate that was killed."""
        self._recover_session()
        rows = self._rows(
            "SELECT table_name FROM information_schema.tables"
            f" WHERE table_schema = {text_literal(self._source.database)} AND table_comment = '{self._mark}'"
        )
        self._execute(*(f"DROP TABLE {quoted(str(name))}" for (name,) in rows))

    def close(self) -> None:
        self._session.close()

    def _take_lock(self) -> None:
        if self._rows(f"SELECT GET_LOCK('{self._mark}', 0)") != ((1,),):
            raise Refused("a certificate of this sync is being written just now", hint="wait until it is there")

    def _opened(self) -> "Session[Any]":
        return self.server.open_session(self._connection, limit_s=QUESTION_S)

    def _recover_session(self) -> None:
        """An interrupt closes the session, a limit of the server may have ended it, an error leaves a transaction."""
        try:
            query(self._session, "ROLLBACK")
        except pymysql.err.MySQLError:
            self._session.close()
            self._session = self._opened()

    @contextmanager
    def _lenient(self, *, is_wanted: bool) -> Iterator[None]:
        """No strict session takes an ENUM's error value."""
        ((strict,),) = self._rows("SELECT @@sql_mode")
        if is_wanted:
            self._execute("SET SESSION sql_mode = ''")
        yield
        self._execute(f"SET SESSION sql_mode = '{strict}'")

    def _letters(self, charset: str) -> str:
        """Every letter of a single-byte character set; for a byte without one the server shows `?`, or nothing."""
        read = (self.read_as.format(charset=charset, byte=f"x'{byte:02x}'") for byte in range(0x21, 0x100))
        asked = ", ".join(f"CONVERT({letter} USING utf8mb4)" for letter in read)
        shown = dict.fromkeys(self._rows(f"SELECT {asked}")[0])
        return "".join(str(letter) for letter in shown if letter not in (None, "\ufffd"))

    def _exists(self, name: str) -> bool:
        return bool(self._rows(f"SELECT 1 FROM information_schema.tables WHERE {self._is_at(name)}"))

    def _is_at(self, table: str) -> str:
        """A condition on information_schema."""
        place = self._source.places.of(table)
        return f"table_schema = {text_literal(place.namespace)} AND table_name = {text_literal(place.table)}"

    def _texts(self, table: str) -> dict[str, str]:
        """Character set and collation of each text column."""
        rows = self._rows(
            "SELECT column_name, character_set_name, collation_name FROM information_schema.columns"
            f" WHERE {self._is_at(table)} AND character_set_name IS NOT NULL"
        )
        return {str(name): f" CHARACTER SET {charset} COLLATE {collation}" for name, charset, collation in rows}

    def _tried(self, column: Column, texts: str, default: Default) -> Default:
        """Left out if the server refuses it in a table of one column: it may read other columns, or be an invalid
        date."""
        if default.left_out:
            return default
        try:
            for statement in _trial(column, texts, default):
                query(self._session, statement)
        except pymysql.err.MySQLError as exc:
            if isinstance(error := self.server.translated(exc, self._connection), TransientError):
                raise error from exc
            return replace(default, left_out=str(exc.args[-1]))
        self._execute(f"DROP TEMPORARY TABLE {_TRIAL}")
        return default

    def _execute(self, *statements: str) -> None:
        for statement in statements:
            self._rows(statement)

    def _rows(self, statement: str) -> tuple[tuple[object, ...], ...]:
        try:
            return query(self._session, statement)
        except pymysql.err.MySQLError as exc:
            raise self.server.translated(exc, self._connection) from exc


def _trial(column: Column, texts: str, default: Default | None) -> Sequence[str]:
    return (
        f"DROP TEMPORARY TABLE IF EXISTS {_TRIAL}",
        f"CREATE TEMPORARY TABLE {_TRIAL} ({_definition(column, texts, default)})",
    )


def _definition(column: Column, texts: str, default: Default | None) -> str:
    """The catalogue's type is the one that the server prints; JSON is its word for a longtext with a check."""
    kind = "json" if column.kind is Kind.JSON else f"{column.source_type}{texts}"
    null = "NULL" if column.nullable else "NOT NULL"
    definition = f"{quoted(column.name)} {kind} {null}"
    if default is not None and not default.left_out:
        return f"{definition} DEFAULT {default.text}"
    # Without a default of its own an old server gives a timestamp one: the moment of each change, or a zero date.
    has_placeholder = column.kind is Kind.INSTANT and not column.nullable
    return f"{definition} DEFAULT '1971-01-01 00:00:00'" if has_placeholder else definition
