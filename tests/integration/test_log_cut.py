"""Cuts from the log on real servers: exact at the cut-off whenever they are made, also of a date that is long over, and
never from a cut that is not what was proven."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.connections import resolve
from seamline.domain.date_before import DATE_BEFORE
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.errors import Refused, SeamlineError
from seamline.domain.made_from import BY_LOG, NOT_BY_LOG, PROVEN_BY_KEYS, MadeFrom
from seamline.domain.runs import NOT_STAGED
from seamline.domain.verdict import Verdict
from seamline.plan.model import AHEAD, BusinessDate
from tests.conftest import RunningStack
from tests.integration.archived import moved_into_archive
from tests.integration.databases import postgres
from tests.integration.nights import Nights, Rows, nights_of
from tests.once_more import ONCE_MORE

TABLES = ("account", "audit", "booked")
BOOKED = "CREATE TABLE booked (id bigint PRIMARY KEY, day date, memo text)"
FIRST = datetime.now(UTC).date() - timedelta(days=1)
DAYS = [FIRST + timedelta(days=number) for number in range(4)]
# In PostgreSQL it lies outside of its row: an update that leaves it alone does not have it in the log.
LARGE = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(300))


def of_date(nights: Nights, day: date) -> Rows:
    """What the source held when the date ended."""
    rows = nights.held[day]
    booked = [row for row in rows["booked"] if row[1] == day]
    later = [row for row in rows["booked"] if row[1] is not None and row[1] > day]
    return {**rows, "booked": booked, f"booked{AHEAD}": later}


def ordered(rows: Rows) -> dict[str, list[str]]:
    return {name: sorted(map(repr, found)) for name, found in rows.items()}


_MARIADB = pytest.param("mariadb", marks=ONCE_MORE)


@pytest.fixture(params=[_MARIADB, "mysql", "postgres"])
def nights(request: pytest.FixtureRequest, stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    kind = request.param
    create = BOOKED if kind == "postgres" else BOOKED.replace("memo text", "memo mediumtext")
    server = request.getfixturevalue("mysql_root") if kind == "mysql" else None
    dated = {"booked": BusinessDate("day", "date")}
    with nights_of(
        kind, f"log_cut_{kind}", monkeypatch, create=create, tables=TABLES, dated=dated, server=server
    ) as made:
        yield made


@contextmanager
def unreadable(nights: Nights) -> Iterator[None]:
    """The login that reads the source may not SELECT from its tables, which it sees in the catalogue all the same."""
    reader = resolve(nights.plan.source.reader).login
    login = f'"{reader}"' if nights.plan.source.kind == "postgres" else f"'{reader}'@'%'"
    nights.bank.execute(*(f"GRANT REFERENCES ON {table} TO {login}" for table in TABLES))
    nights.bank.execute(*(f"REVOKE SELECT ON {table} FROM {login}" for table in TABLES))
    try:
        yield
    finally:
        nights.bank.execute(*(f"GRANT SELECT ON {table} TO {login}" for table in TABLES))


def write_first_date(nights: Nights) -> None:
    d0, d1, d2, _ = DAYS
    large = LARGE if nights.plan.source.kind == "postgres" else "as large as that column takes"
    nights.bank.execute(
        f"INSERT INTO account VALUES (1, 10, 'anna'), (2, NULL, NULL), (3, -3, ''), (8, 8, '{large}')",
        "INSERT INTO audit VALUES (1, 'same'), (1, 'same'), (NULL, 'x')",
        f"INSERT INTO booked VALUES (1, '{d0}', 'a'), (2, '{d1}', 'b'), (3, '{d2}', '{LARGE}'), (4, NULL, 'n')",
    )
    nights.end(d0)


def write_second_date(nights: Nights) -> None:
    d0, d1, d2, d3 = DAYS
    nights.bank.execute(
        "UPDATE account SET a = 11 WHERE id = 1",
        "DELETE FROM account WHERE id = 3",
        "INSERT INTO account VALUES (5, 5, 'five')",
        "UPDATE account SET id = 6 WHERE id = 2",
        "UPDATE audit SET memo = 'other' WHERE a IS NULL",
        "INSERT INTO audit VALUES (9, 'nine')",
        # In and out of the date.
        f"UPDATE booked SET day = '{d1}' WHERE id = 1",
        f"UPDATE booked SET day = '{d0}' WHERE id = 2",
        f"UPDATE booked SET day = '{d3}' WHERE id = 3",
        f"INSERT INTO booked VALUES (5, '{d1}', 'e'), (6, '{d1}', 'gone'), (7, '{d2}', 'g')",
        "DELETE FROM booked WHERE id = 6",
    )
    nights.end(d1)


def write_third_date(nights: Nights) -> None:
    _, _, d2, _ = DAYS
    nights.bank.execute(
        "DELETE FROM audit WHERE memo = 'other'",
        "INSERT INTO account VALUES (7, 7, 'seven')",
        # More than PostgreSQL is sent as arrays: they come in a temporary table.
        f"INSERT INTO account VALUES {', '.join(f'({number}, 1, NULL)' for number in range(100, 400))}",
        "UPDATE account SET a = 12 WHERE id = 1",
        "UPDATE account SET a = 9 WHERE id = 8",
        # Back to the date: its large value is in the rows that were kept for later dates, and not in the log.
        f"UPDATE booked SET day = '{d2}' WHERE id = 3",
    )
    nights.end(d2)
    nights.bank.execute("UPDATE account SET a = 13 WHERE id = 1", "DELETE FROM booked", "DELETE FROM audit")


def test_each_date_is_cut_as_it_ended_from_the_cut_before_it_and_the_log(nights: Nights, tmp_path: Path) -> None:
    d0, d1, d2, d3 = DAYS
    write_first_date(nights)
    nights.ends[d3] = nights.ends[d0]
    with pytest.raises(Refused, match="no cut before"):
        nights.take(d3)
    for cut, found in nights.take(d0).values():
        assert (found.mode, found.verdict) == ("read", Verdict.MATCH), found.tables
        assert "no cut before" in str(found.evidence[NOT_BY_LOG])
        assert ordered(nights.staged(cut)) == ordered(of_date(nights, d0))
        nights.publish(cut)
    write_second_date(nights)
    write_third_date(nights)
    for number, day in enumerate((d1, d2), start=1):
        with unreadable(nights):
            cuts = nights.take(day)
        for cut, found in cuts.values():
            assert (found.mode, found.verdict) == ("log", Verdict.MATCH), [(t.table, t.reason) for t in found.tables]
            assert ordered(nights.staged(cut)) == ordered(of_date(nights, day)), cut.destination
            made: Any = found.evidence[BY_LOG]
            assert (made["steps"], made["read_date"], made["base_verdict"]) == (number, d0.isoformat(), "MATCH")
            # The log of PostgreSQL leaves out the large value of the third date: both sides are digested whole.
            is_whole = day == d1 or nights.plan.source.kind != "postgres"
            by_keys = ["account"] if is_whole and cut.destination == "warehouse" else []
            assert found.evidence[PROVEN_BY_KEYS] == by_keys
            assert (cut.as_of, cut.is_partial) == (nights.ends[day], False)
            # A row was moved to the first date behind its cut.
            late: Any = [(one["table"], one["changed_in_log"]) for one in found.evidence[DATE_BEFORE]]  # type: ignore[attr-defined]
            assert late == ([("booked", 1)] if day == d1 else [])
            nights.publish(cut)
    with unreadable(nights), pytest.raises(SeamlineError, match="denied"):
        nights.take(d2, MadeFrom.READ)
    # A date that is long over is the same once more, also where its log lies in the archive alone.
    archived = moved_into_archive(nights.plan, nights.bank.kafka, tmp_path)
    with pytest.raises(Refused, match="the log begins at offset"):
        nights.take(d1)
    nights.plan = archived
    again = nights.take(d1)
    assert {found.mode for _, found in again.values()} == {"log"}
    assert {name: found.verdict for name, (_, found) in again.items()} == dict.fromkeys(again, Verdict.MATCH)
    assert all(ordered(nights.staged(cut)) == ordered(of_date(nights, d1)) for cut, _ in again.values())
    with postgres(nights.warehouse) as session:
        session.execute("DELETE FROM bank_cut.account WHERE cut_business_date = %s AND id = 1", (d1,))
    # The other destination has its cut all the same.
    ((cut, _),) = (taken := nights.take(d2)).values()
    assert list(taken) == ["second"]
    why = nights.store.run(cut.run_id).result[NOT_STAGED]["warehouse"]
    assert "no longer holds what was compared" in why
    read = {name: (one.mode, one.verdict) for name, (_, one) in nights.take(d0, MadeFrom.AUTO).items()}
    assert read == dict.fromkeys(read, ("read", Verdict.MATCH))


# How a destination stores its cuts is nothing to a kind of source.
@pytest.mark.parametrize("nights", ["postgres", _MARIADB], indirect=True)
def test_a_cut_from_the_log_begins_with_one_that_is_stored_as_versions(nights: Nights) -> None:
    whole = ("account", "audit")
    destinations = tuple(replace(one, versioned=whole) for one in nights.plan.destinations)
    nights.plan = replace(nights.plan, destinations=destinations)
    write_first_date(nights)
    for cut, _ in nights.take(DAYS[0]).values():
        nights.publish(cut)
    write_second_date(nights)
    for cut, found in nights.take(DAYS[1]).values():
        assert (found.mode, found.verdict) == ("log", Verdict.MATCH), [(t.table, t.reason) for t in found.tables]
        assert ordered(nights.staged(cut)) == ordered(of_date(nights, DAYS[1])), cut.destination
        nights.publish(cut)
    for destination in destinations:
        for table in whole:
            for day in DAYS[:2]:
                of_day = f"FROM {destination.cut_namespace}.{table}_current WHERE cut_business_date = DATE'{day}'"
                columns = "id, a, memo" if table == "account" else "a, memo"
                shown = nights.query(destination.name, f"SELECT {columns} {of_day}")
                assert sorted(map(repr, shown)) == sorted(map(repr, nights.held[day][table])), (table, day)
        stored = f"SELECT COUNT(*) FROM {destination.cut_namespace}.account__rows_1"
        assert nights.query(destination.name, stored) == [(7,)], "four, and what became of two of them and a new one"


def test_a_cut_ends_where_the_log_moves_the_system_date_on_whatever_the_time(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    d0, d1, d2, _ = DAYS
    tables = ("account", "booked")
    with nights_of("postgres", "log_system_date", monkeypatch, create=BOOKED, tables=tables, dated={}) as nights:
        nights.bank.execute(f"INSERT INTO booked VALUES (1, '{d0}', 'unit')", "INSERT INTO account VALUES (1, 1, 'a')")
        nightly = nights.plan.nightly
        assert nightly is not None
        by_date = (DayClosed(ClosedBy.SYSTEM_DATE, "booked", "day"),)
        nights.plan = replace(nights.plan, nightly=replace(nightly, closed_when=by_date))
        nights.bank.execute(f"UPDATE booked SET day = '{d1}'")
        nights.end(d0)
        for cut, found in nights.take(d0).values():
            assert found.mode == "read"
            nights.publish(cut)
        nights.end(d1)
        nights.bank.execute("INSERT INTO account VALUES (2, 2, 'behind the time, and before the date has moved on')")
        held = {name: nights.bank.rows(name) for name in tables}
        nights.bank.execute(f"UPDATE booked SET day = '{d2}'", "INSERT INTO account VALUES (3, 3, 'of the next date')")
        for cut, found in nights.take(d1).values():
            assert (found.mode, found.verdict) == ("log", Verdict.MATCH), [(t.table, t.reason) for t in found.tables]
            assert ordered(nights.staged(cut)) == ordered(held), cut.destination
            made: Any = found.evidence[BY_LOG]
            assert made["moved_on"] == "booked.day"
