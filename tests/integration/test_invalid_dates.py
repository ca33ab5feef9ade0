"""Invalid dates of MariaDB: the log distinguishes them from NULL and from 1970, and no stream stores anything for
one."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, rows_in_log
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed
from tests.once_more import ONCE_MORE
from tests.waiting import wait_until

# 10,000 BC, as each type of column shows it.
NO_DAY = -4_371_587
NONE_AS = {
    "d": NO_DAY,
    "dn": NO_DAY,
    "m": NO_DAY * 86_400_000,
    "un": NO_DAY * 86_400_000_000,
    "t": "-9999-01-01T00:00:00.000000Z",
    "tn": "-9999-01-01T00:00:00Z",
}
DATED = """CREATE TABLE dated (id INT PRIMARY KEY, d DATE NULL, dn DATE NOT NULL, m DATETIME(3) NULL,
    un DATETIME(6) NOT NULL, t TIMESTAMP(6) NULL, tn TIMESTAMP NOT NULL DEFAULT '2026-01-01')"""
REAL = {"d": "'0001-01-01'", "dn": "'9999-12-31'", "m": "NULL", "un": "'1970-01-01 00:00:00'", "t": "NULL"}
REAL |= {"tn": "'1970-01-01 00:00:01'"}
ANY_DATE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("dated") as one:
        one.execute(DATED)
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("dated") as connection:
        yield connection


def values(**odd: str) -> str:
    return ", ".join((REAL | odd).values())


def test_an_invalid_date_is_distinguished_from_null_and_from_every_real_one(bank: Captured) -> None:
    bank.ensure(bank.with_tables("dated"))
    odd = ["'0000-00-00'", "'2026-00-15'", "'2026-11-00'", "'2026-02-31'", "'0000-05-05'"]
    bank.execute(
        ANY_DATE,
        f"INSERT INTO dated VALUES (0, {values()})",
        *(
            f"INSERT INTO dated VALUES ({number}, {values(d=none, dn=none, m=none, un=none, t=zero, tn=zero)})"
            for number, none in enumerate(odd, start=1)
            for zero in ["'0000-00-00 00:00:00'"]
        ),
        "UPDATE dated SET d = NULL, m = NULL, t = NULL WHERE id = 1",
        "DELETE FROM dated WHERE id = 2",
    )
    rows = rows_in_log(bank, "dated", len(odd) + 3)
    first = {"d": -719_162, "dn": 2_932_896, "m": None, "un": 0, "t": None, "tn": "1970-01-01T00:00:01Z"}
    assert rows[0] == {"id": 0, **first}
    assert [row | {"id": 0} for row in rows[1 : len(odd) + 1]] == [{"id": 0, **NONE_AS}] * len(odd)
    assert rows[len(odd) + 1] == {"id": 1, **NONE_AS, "d": None, "m": None, "t": None}
    assert rows[len(odd) + 2] == {"id": 2, **NONE_AS}


# `tests/unit/test_row_decoder.py` has each type of column.
@pytest.mark.parametrize("column", ["d", pytest.param("un", marks=ONCE_MORE), pytest.param("t", marks=ONCE_MORE)])
def test_a_stream_stops_before_an_invalid_date_and_names_its_column(
    bank: Captured, warehouse: Connection, column: str
) -> None:
    with streamed(bank, warehouse, "account", "dated") as stream:
        stream.start()
        bank.execute(ANY_DATE, f"INSERT INTO dated VALUES (1, {values()})")
        stream.wait_until_applied()
        bank.execute(
            ANY_DATE,
            "BEGIN",
            "INSERT INTO account VALUES (1, 1, 'of the same transaction')",
            f"INSERT INTO dated VALUES (2, {values(**{column: repr('0000-00-00 00:00:00')})})",
            "COMMIT",
        )
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert f"column {column} holds an invalid date" in str(stream.error)
        assert "Write `parked: <why>`" in stream.error.hint
        assert stream.query("SELECT id FROM live.dated") == [(1,)]
        assert stream.query("SELECT id FROM live.account") == []
