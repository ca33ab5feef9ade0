"""What differs between two cuts, as the view in real MariaDB and MySQL servers shows it."""

from datetime import date
from typing import Any

from seamline.sinks.relational.cuts import RelationalCuts
from tests.integration.cuts_published import DAY, EARLIER, Place, staged
from tests.integration.relational_cuts import Sql, publish, stage
from tests.integration.relational_cuts import cuts as cuts
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql

CHANGES = "cuts_cut.entry_cut_changes"


def changes(sql: Sql, since: date, until: date, columns: str = "id, v") -> list[Any]:
    rows = sql.execute(
        f"SELECT cut_change, {columns} FROM {CHANGES}"
        f" WHERE cut_since = '{since}' AND cut_business_date = '{until}' ORDER BY 2, 1"
    )
    return list(rows.fetchall())


def entry(cuts: RelationalCuts, sql: Sql, run: str, day: date, *statements: str, rows: int = 3) -> None:
    place = stage(sql, run, rows)
    for statement in statements:
        sql.execute(statement.format(place.name))
    ((count,),) = sql.execute(f"SELECT COUNT(*) FROM {place.name}").fetchall()
    publish(cuts, staged(run, {"entry": Place(place.name, count)}, day=day))


EDITED = (
    "DELETE FROM {} WHERE id = 1",
    "UPDATE {} SET v = NULL WHERE id = 2",
    "INSERT INTO {} VALUES (4, '2026-03-05', 40)",
)


def test_rows_that_came_went_and_changed_between_two_dates_are_shown_either_way_round(
    cuts: RelationalCuts, sql: Sql
) -> None:
    entry(cuts, sql, "r0", date(2026, 3, 1), rows=400)
    entry(cuts, sql, "r1", EARLIER)
    entry(cuts, sql, "r2", DAY, *EDITED)
    sql.execute("FLUSH STATUS")
    assert changes(sql, EARLIER, DAY) == [
        ("removed", 1, 0),
        ("changed_from", 2, 0),
        ("changed_to", 2, None),
        ("added", 4, 40),
    ]
    read = sql.execute("SHOW SESSION STATUS LIKE 'Handler_read%'").fetchall()
    assert sum(int(count) for _, count in read) < 200, "no table of another date is read"
    assert [change for change, *_ in changes(sql, DAY, EARLIER)] == ["added", "changed_from", "changed_to", "removed"]


def test_the_earlier_versions_of_a_date_stand_beside_the_one_that_counts(cuts: RelationalCuts, sql: Sql) -> None:
    entry(cuts, sql, "r1", DAY)
    entry(cuts, sql, "r2", DAY, *EDITED)
    entry(cuts, sql, "r3", DAY, rows=4)
    entry(cuts, sql, "r4", EARLIER)
    assert changes(sql, DAY, DAY, "id, cut_since_version, cut_version") == [
        ("added", 1, 2, 3),
        ("changed_from", 2, 2, 3),
        ("changed_to", 2, 2, 3),
        ("added", 4, 1, 3),
        ("changed_from", 4, 2, 3),
        ("changed_to", 4, 2, 3),
    ]
    assert changes(sql, EARLIER, DAY, "id, cut_since_version, cut_version") == [("added", 4, 1, 3)], (
        "of two dates, the versions that count"
    )


def test_rows_without_a_key_are_counted_and_compared_byte_by_byte(cuts: RelationalCuts, sql: Sql) -> None:
    for run, day, rows in (
        ("r1", EARLIER, "('a', 0.1), ('a', 0.1), (NULL, 0), ('b ', 1)"),
        ("r2", DAY, "('a', 0.1), (NULL, NULL), ('B ', 1), ('b ', 1)"),
    ):
        sql.execute(f"CREATE TABLE cuts_stage.{run} (memo varchar(10) CHARACTER SET utf8mb4, amount float)")
        sql.execute(f"INSERT INTO cuts_stage.{run} VALUES {rows}")
        publish(cuts, staged(run, {"audit": Place(f"cuts_stage.{run}", 4)}, day=day))
    found = sql.execute(
        "SELECT cut_change, memo, amount FROM cuts_cut.audit_cut_changes"
        f" WHERE cut_since = '{EARLIER}' AND cut_business_date = '{DAY}' ORDER BY 1, 2, 3"
    ).fetchall()
    added, removed = {("added", "B ", 1.0), ("added", None, None)}, {("removed", "a", 0.1), ("removed", None, 0.0)}
    assert set(found) == added | removed
    assert len(found) == 4


def test_a_column_that_came_is_in_the_view_with_the_next_cut(cuts: RelationalCuts, sql: Sql) -> None:
    entry(cuts, sql, "r1", EARLIER)
    entry(cuts, sql, "r2", DAY, "ALTER TABLE {} ADD COLUMN fee int", "UPDATE {} SET fee = 1 WHERE id = 2")
    assert changes(sql, EARLIER, DAY, "id, fee") == [("changed_from", 2, None), ("changed_to", 2, 1)]
