"""Nights that read only rows above the greatest key of the newest cut, on real servers: what such a read is known to
lose is found, counted, and read."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.made_from import MadeFrom, taken_over_from_json, taken_over_in_words
from seamline.domain.verdict import Verdict
from seamline.plan.model import SourcePlan
from tests import jdbc_server
from tests.conftest import RunningStack
from tests.integration.captured_postgres import PostgresCaptured
from tests.integration.databases import mariadb, postgres
from tests.integration.nights import Nights, nights_of, nights_of_unlogged
from tests.once_more import ONCE_MORE

DAY = datetime.now(UTC).date() - timedelta(days=1)
CREATE = "CREATE TABLE entry (id bigint PRIMARY KEY, at timestamp(6) NULL, memo varchar(40))"
NAMES = ("warehouse", "second")


# From PostgreSQL with a log no transaction commits late: its snapshot waits, which has tests of its own.
@pytest.fixture(params=["mariadb", pytest.param("postgres", marks=ONCE_MORE)])
def nights(request: pytest.FixtureRequest, stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    kind = request.param
    with nights_of(
        kind, f"incremental_{kind}", monkeypatch, create=CREATE, tables=("entry", "audit"), dated={}
    ) as made:
        made.ends[DAY] = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        yield made


def taken(nights: Nights) -> tuple[list[tuple[int | str, int, int]], str]:
    """Take and publish the date everywhere; what was read above which key or time and kept, and what is said. Both are
    the same in each destination, and its rows are those of the source."""
    nights.ends[DAY + timedelta(days=1)] = datetime.now(UTC) + timedelta(days=1)
    source = {name: sorted(map(repr, nights.bank.rows(name))) for name in ("entry", "audit")}
    answers = set()
    for name, (cut, found) in nights.take(DAY, MadeFrom.INCREMENTAL).items():
        assert cut.verdict is Verdict.MATCH
        staged = nights.staged(cut)
        ids = sorted(int(row[0]) for row in staged["entry"])
        assert [repr(one) for one in ids] == sorted((one.split(",")[0][1:] for one in source["entry"]), key=int)
        assert len(staged["audit"]) == len(source["audit"])
        nights.publish(cut)
        counts = tuple((one.above, one.read, one.kept) for one in taken_over_from_json(found.evidence))
        answers.add((counts, " ".join(taken_over_in_words(found.evidence))))
        assert name in NAMES
    ((counts, said),) = answers
    return list(counts), said


@contextmanager
def commits_late(nights: Nights, statement: str) -> Iterator[None]:
    """A long transaction that took its number first, and commits after the cursor has passed. The snapshot of a
    PostgreSQL source whose log is read waits for it (ADR 12): there it begins later, with a number of before."""
    bank = nights.bank
    if isinstance(bank, PostgresCaptured) and nights.plan.source.has_log:
        yield
        bank.execute(statement)
        return
    opened: Any = postgres(bank.root) if isinstance(bank, PostgresCaptured) else mariadb(bank.root)
    with closing(opened) as late, late.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        yield
        cursor.execute("COMMIT")


def test_new_rows_are_read_and_what_a_cursor_loses_is_found_counted_and_read(nights: Nights) -> None:
    bank = nights.bank
    same = "'2026-03-05 10:00:00.000001'"
    bank.execute(
        f"INSERT INTO entry VALUES (1, {same}, 'a'), (2, {same}, 'b'), (10, NULL, 'c')",
        "INSERT INTO audit VALUES (1, 'x'), (1, 'x')",
    )
    counts, said = taken(nights)
    assert (counts, "is a MATCH that this one could begin with" in said) == ([], True)

    bank.execute(f"INSERT INTO entry VALUES (11, {same}, 'equal time'), (12, NULL, 'd')", "DELETE FROM audit")
    assert taken(nights)[0] == [(10, 2, 3)]
    assert taken(nights)[0] == [(12, 0, 5)], "nothing came"

    with commits_late(nights, "INSERT INTO entry VALUES (13, NULL, 'long')"):
        bank.execute("INSERT INTO entry VALUES (14, NULL, 'quick')")
        assert taken(nights)[0] == [(12, 1, 5)]
    counts, said = taken(nights)
    assert (counts, "entry that are those of the cut before: 1 came late" in said) == ([], True)

    # A session that was given a block of numbers uses an old one; a row changes, another goes; a clock was set back.
    bank.execute("INSERT INTO entry VALUES (3, '2001-01-01 00:00:00', 'cached')")
    assert "1 came late" in taken(nights)[1]
    bank.execute("UPDATE entry SET memo = 'z' WHERE id = 1", "DELETE FROM entry WHERE id = 2")
    assert "1 changed, 1 are gone" in taken(nights)[1]
    bank.execute("INSERT INTO entry VALUES (20, '2001-01-01 00:00:00', 'clock')")
    assert taken(nights)[0] == [(14, 1, 7)]


PARTS = "CREATE TABLE entry (id bigint, part int, at timestamp(6) NULL, memo varchar(40), PRIMARY KEY (id, part))"


def without_its_log(nights: Nights) -> None:
    nights.ends[DAY] = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    of_log = ("capture", "marker", "log_topic", "connector")
    source = replace(nights.plan.source, **dict.fromkeys(of_log, ""), snapshot_lock="none")
    nights.plan = replace(nights.plan, source=source)


def by_time(nights: Nights) -> None:
    nightly = nights.plan.nightly
    assert nightly is not None
    nights.plan = replace(nights.plan, nightly=replace(nightly, cursors=(("entry", "at"),)))


def test_a_table_without_a_key_has_a_cursor_too_and_equal_rows_are_kept_as_often_as_they_are_there(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyless = PARTS.replace(", PRIMARY KEY (id, part)", "")
    with nights_of(
        "mariadb", "cursor_keyless", monkeypatch, create=keyless, tables=("entry", "audit"), dated={}
    ) as nights:
        without_its_log(nights)
        by_time(nights)
        # As versions, which know equal rows by the number of their copy.
        as_versions = (replace(one, versioned=("entry",)) for one in nights.plan.destinations)
        nights.plan = replace(nights.plan, destinations=tuple(as_versions))
        rows = "(1, 1, '2026-03-05 10:00:00', 'a'), (1, 1, '2026-03-05 10:00:00', 'a'), (2, 1, NULL, 'no time')"
        nights.bank.execute(f"INSERT INTO entry VALUES {rows}, (3, 1, '2026-03-06 00:00:00', 'newest')")
        assert taken(nights)[0] == []
        nights.bank.execute("INSERT INTO entry VALUES (3, 1, '2026-03-06 00:00:00', 'newest')")
        assert taken(nights)[0] == [("2026-03-06 00:00:00.000000", 2, 3)]
        for name in NAMES:
            shown = f"SELECT id FROM {nights.plan.destination(name).cut_namespace}.entry_current ORDER BY id"
            assert [row[0] for row in nights.query(name, shown)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("kind", ["postgres", pytest.param("mariadb", marks=ONCE_MORE)])
def test_keys_of_several_columns_and_times_are_cursors_also_without_a_log_and_what_they_lose_is_counted_and_read(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with nights_of(kind, f"cursors_{kind}", monkeypatch, create=PARTS, tables=("entry", "audit"), dated={}) as nights:
        without_its_log(nights)
        bank, at = nights.bank, "'2026-03-05 10:00:00.000001'"
        bank.execute(f"INSERT INTO entry VALUES (1, 1, {at}, 'a'), (2, 1, {at}, 'b'), (2, 2, NULL, 'no time')")
        assert taken(nights)[0] == []
        bank.execute(f"INSERT INTO entry VALUES (2, 3, {at}, 'of the greatest number'), (3, 1, {at}, 'c')")
        assert taken(nights)[0] == [(2, 4, 1)]
        with commits_late(nights, "INSERT INTO entry VALUES (1, 2, NULL, 'below')"):
            assert taken(nights)[0] == [(3, 1, 4)]
        assert "1 came late" in taken(nights)[1]

        by_time(nights)
        bank.execute(
            f"INSERT INTO entry VALUES (1, 3, {at}, 'equal time')",
            "UPDATE entry SET at = '2026-03-06 00:00:00', memo = 'changed with its time' WHERE id = 3",
        )
        newest = "2026-03-05 10:00:00.000001"
        assert taken(nights)[0] == [(newest, 5, 2)], "all of the newest time, and the changed row once"
        bank.execute("UPDATE entry SET at = '2026-03-06 00:00:00' WHERE id = 2 AND part = 1")
        assert taken(nights)[0] == [("2026-03-06 00:00:00.000000", 2, 5)], "its old row is not kept"
        with commits_late(nights, f"INSERT INTO entry VALUES (9, 1, {at}, 'long')"):
            bank.execute("INSERT INTO entry VALUES (9, 2, '2026-03-07 00:00:00', 'quick')")
            assert taken(nights)[0] == [("2026-03-06 00:00:00.000000", 3, 5)]
        assert "1 came late" in taken(nights)[1]
        bank.execute("INSERT INTO entry VALUES (9, 3, '2001-01-01 00:00:00', 'clock')")
        assert "1 came late" in taken(nights)[1]
        bank.execute(
            "UPDATE entry SET memo = 'no new time' WHERE part = 1 AND id = 1", "DELETE FROM entry WHERE id = 2"
        )
        assert "1 changed, 3 are gone" in taken(nights)[1]


def test_what_commits_behind_a_cut_that_was_read_by_jdbc_is_counted_and_read(
    stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "incremental_jdbc"
    with jdbc_server.running(stack.settings, "h2", tmp_path, login="READER") as server:
        monkeypatch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}", server.connection)
        for statement in (
            'CREATE TABLE "entry" ("id" BIGINT PRIMARY KEY, "memo" VARCHAR(40))',
            f"CREATE USER reader PASSWORD '{jdbc_server.PASSWORD}'",
            'GRANT SELECT ON "entry" TO reader',
            "INSERT INTO \"entry\" VALUES (1, 'a'), (10, 'b')",
        ):
            server.execute(statement)
        source = SourcePlan(name, "jdbc", "bank", name, "", "", "", "", schema="PUBLIC")
        with nights_of_unlogged(source, server, ("entry",), monkeypatch) as nights:
            now = datetime.now(UTC)
            nights.ends |= {DAY: now - timedelta(hours=1), DAY + timedelta(days=1): now + timedelta(days=1)}
            assert by_jdbc(nights) == ([], [1, 10])
            server.execute("INSERT INTO \"entry\" VALUES (12, 'quick')")
            for statement in ("SET AUTOCOMMIT FALSE", "INSERT INTO \"entry\" VALUES (11, 'long')"):
                server.execute(statement)
            assert by_jdbc(nights) == ([(10, 1, 2)], [1, 10, 12])
            server.execute("COMMIT")
            assert by_jdbc(nights, said="1 came late") == ([], [1, 10, 11, 12])


def by_jdbc(nights: Nights, said: str = "") -> tuple[list[tuple[int | str, int, int]], list[int]]:
    """What was read above which key and kept, and the rows that the cut has. `said`: why the table was read whole."""
    ((cut, found),) = nights.take(DAY, MadeFrom.INCREMENTAL).values()
    assert (cut.verdict, found.verdict) == (Verdict.MATCH, Verdict.MATCH)
    ids = sorted(int(row[0]) for row in nights.staged(cut)["entry"])
    nights.publish(cut)
    assert said in " ".join(taken_over_in_words(found.evidence))
    return [(one.above, one.read, one.kept) for one in taken_over_from_json(found.evidence)], ids
