"""What a source is asked whether its day is closed: by real servers, in sessions that cannot write."""

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.errors import SeamlineError
from seamline.plan.model import SourcePlan
from seamline.ports.questions import AnswersQuestions
from seamline.sources.mariadb.source import MariaDbSource
from seamline.sources.postgres.source import PostgresSource
from seamline.sync.day_closed import look
from tests.conftest import RunningStack
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id

DAY = date(2026, 11, 25)
READER = "day_closed_reader"
TABLES = (
    "CREATE TABLE day_state (day DATE PRIMARY KEY, state VARCHAR(20))",
    "INSERT INTO day_state VALUES ('2026-11-24', '100% CLOSED'), ('2026-11-25', 'OPEN')",
    "CREATE TABLE system_date (unit INT PRIMARY KEY, business_date DATE, as_text VARCHAR(8))",
    "INSERT INTO system_date VALUES (1, '2026-11-26', '20261126'), (2, '2026-11-25', '20261125')",
)
SQL = DayClosed(ClosedBy.SQL, "select count(*) from day_state where day = :date and state like '%CLOSED'")


def _plan(kind: str, database: str, schema: str = "") -> SourcePlan:
    return SourcePlan("s", kind, database, READER, READER, READER, "seamline.s.log", "seamline-s", schema=schema)


@pytest.fixture(params=["mariadb", "postgres"])
def source(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[AnswersQuestions]:
    del stack
    name = "day_closed_test"
    if request.param == "mariadb":
        with mariadb_database(name) as root, closing(mariadb(root)) as session, session.cursor() as cursor:
            for statement in TABLES:
                cursor.execute(statement)
            session.commit()
            with known_by_id(root, READER, "mysql"):
                yield MariaDbSource(_plan("mariadb", name))
        return
    with postgres_database(name) as owner, closing(postgres(owner)) as session:
        for statement in ("CREATE SCHEMA bank", "SET search_path = bank", *TABLES):
            session.execute(statement.encode())
        with known_by_id(owner, READER, "postgres"):
            yield PostgresSource(_plan("postgres", name, "bank"))


def test_a_query_about_the_date_says_whether_it_is_closed(source: AnswersQuestions, tmp_path: Path) -> None:
    def is_closed(day: date) -> bool:
        return look(SQL, day, source=lambda: source, files=tmp_path).is_closed

    assert (is_closed(date(2026, 11, 24)), is_closed(DAY), is_closed(date(2026, 12, 1))) == (True, False, False)


@pytest.mark.parametrize("column", ["business_date", "as_text"])
def test_the_system_date_of_every_unit_must_be_later(source: AnswersQuestions, tmp_path: Path, column: str) -> None:
    wanted = DayClosed(ClosedBy.SYSTEM_DATE, "system_date", column)
    seen = look(wanted, DAY, source=lambda: source, files=tmp_path)
    assert (seen.is_closed, seen.seen) == (False, "the system date is 2026-11-25")
    assert look(wanted, date(2026, 11, 24), source=lambda: source, files=tmp_path).is_closed


def test_a_question_cannot_write(source: AnswersQuestions) -> None:
    with pytest.raises(SeamlineError, match=r"(?i)read[ -]only"):
        source.ask("insert into day_state values (:date, 'CLOSED')", date(2027, 1, 1))
