"""What differs between two cuts, as the view in a real PostgreSQL shows it."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.sinks.postgres.cuts import PostgresCuts
from tests.integration.cuts_published import DAY, EARLIER, Place, publish, stage, staged
from tests.integration.cuts_published import cuts as cuts
from tests.integration.cuts_published import sql as sql
from tests.integration.databases import postgres_database

CHANGES = "settlement_cut.entry_cut_changes"


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database("cut_changes") as connection:
        yield connection


def changes(sql: Any, since: date, until: date, columns: str = "id, v") -> list[Any]:
    rows = sql.execute(
        f"SELECT cut_change, {columns} FROM {CHANGES}"
        f" WHERE cut_since = '{since}' AND cut_business_date = '{until}' ORDER BY 2, 1"
    )
    return list(rows.fetchall())


def entry(cuts: PostgresCuts, sql: Any, run: str, day: date, *statements: str, rows: int = 3) -> None:
    place = stage(sql, run, rows)
    for statement in statements:
        sql.execute(statement.format(place.name))
    (count,) = sql.execute(f"SELECT count(*) FROM {place.name}").fetchone()
    publish(cuts, staged(run, {"entry": Place(place.name, count)}, day=day))


EDITED = (
    "DELETE FROM {} WHERE id = 1",
    "UPDATE {} SET v = NULL WHERE id = 2",
    "INSERT INTO {} VALUES (4, '2026-03-05', 40)",
)


def test_rows_that_came_went_and_changed_between_two_dates_are_shown_either_way_round(
    cuts: PostgresCuts, sql: Any
) -> None:
    entry(cuts, sql, "r1", EARLIER)
    entry(cuts, sql, "r2", DAY, *EDITED)
    assert changes(sql, EARLIER, DAY) == [
        ("removed", 1, 0),
        ("changed_from", 2, 0),
        ("changed_to", 2, None),
        ("added", 4, 40),
    ]
    assert [change for change, *_ in changes(sql, DAY, EARLIER)] == ["added", "changed_from", "changed_to", "removed"]
    plan = " ".join(
        line
        for (line,) in sql.execute(
            f"EXPLAIN SELECT * FROM {CHANGES} WHERE cut_since = '{EARLIER}' AND cut_business_date = '{EARLIER}'"
        ).fetchall()
    )
    assert "entry_20260305_v1" not in plan, "no partition of another date is read"


def test_the_earlier_versions_of_a_date_stand_beside_the_one_that_counts(cuts: PostgresCuts, sql: Any) -> None:
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


def test_rows_without_a_key_are_counted_and_values_of_every_type_are_compared_as_they_are_stored(
    cuts: PostgresCuts, sql: Any
) -> None:
    for run, day, rows in (
        ("r1", EARLIER, """('a', '{"x": 1}'), ('a', '{"x": 1}'), (NULL, 'null'), ('b ', '{}')"""),
        ("r2", DAY, """('a', '{"x": 1}'), (NULL, NULL), ('b', '{}'), ('b ', '{}')"""),
    ):
        sql.execute(f"CREATE TABLE settlement_stage.{run} (memo varchar(10), note json)")
        sql.execute(f"INSERT INTO settlement_stage.{run} VALUES {rows}")
        publish(cuts, staged(run, {"audit": Place(f"settlement_stage.{run}", 4)}, day=day))
    found = sql.execute(
        "SELECT cut_change, memo, note::text FROM settlement_cut.audit_cut_changes"
        f" WHERE cut_since = '{EARLIER}' AND cut_business_date = '{DAY}' ORDER BY 1, 2, 3"
    ).fetchall()
    assert found == [
        ("added", "b", "{}"),
        ("added", None, None),
        ("removed", "a", '{"x": 1}'),
        ("removed", None, "null"),
    ]


def test_a_column_or_a_key_that_came_is_in_the_view_with_the_next_cut(cuts: PostgresCuts, sql: Any) -> None:
    entry(cuts, sql, "r1", EARLIER)
    sql.execute(f"GRANT SELECT ON {CHANGES} TO PUBLIC; ALTER VIEW {CHANGES} SET (security_invoker = true)")
    more = "ALTER TABLE {0} ADD COLUMN fee numeric, DROP CONSTRAINT r2_pkey, ADD PRIMARY KEY (id, v)"
    entry(cuts, sql, "r2", DAY, "UPDATE {} SET v = 5 WHERE id = 2", more, "UPDATE {} SET fee = 1 WHERE id = 3")
    assert changes(sql, EARLIER, DAY, "id, v, fee") == [
        ("added", 2, 5, None),
        ("removed", 2, 0, None),
        ("changed_from", 3, 0, None),
        ("changed_to", 3, 0, 1),
    ]
    rights = f"SELECT relacl::text, reloptions FROM pg_class WHERE oid = '{CHANGES}'::regclass"
    acl, options = sql.execute(rights).fetchone()
    assert ("=r/" in acl, options) == (True, ["security_invoker=true"])


def test_a_date_that_is_no_partition_any_more_has_no_differences(cuts: PostgresCuts, sql: Any) -> None:
    entry(cuts, sql, "r1", EARLIER)
    entry(cuts, sql, "r2", DAY, rows=5)
    sql.execute("ALTER TABLE settlement_cut.entry DETACH PARTITION settlement_cut.entry_20260304_v1")
    assert not changes(sql, EARLIER, DAY), "five rows did not come: nobody knows"
