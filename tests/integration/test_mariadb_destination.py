"""A sync into MariaDB on real servers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.verdict import Verdict
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import mariadb
from tests.integration.into_mariadb import plan_of, synced, warehouse_in_mariadb

NAME = "md_warehouse"
SOURCES: dict[str, Callable[[str], AbstractContextManager[Captured]]] = {
    "mariadb": captured,
    "postgres": captured_postgres,
}
BEFORE = (
    "INSERT INTO account VALUES (1, 1, 'one'), (2, NULL, 'tail '), (3, 3, '')",
    "INSERT INTO audit VALUES (1, 'same'), (1, 'same'), (NULL, NULL)",
)
AFTER = (
    "UPDATE account SET memo = 'ü€😀' WHERE id = 1",
    "UPDATE account SET id = 20 WHERE id = 2",
    "DELETE FROM account WHERE id = 3",
    "INSERT INTO account VALUES (4, 4, NULL)",
    "INSERT INTO audit VALUES (1, 'same'), (1, 'same '), (1, 'gone')",
    "DELETE FROM audit WHERE memo = 'gone'",
)


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with warehouse_in_mariadb(NAME) as publisher:
        yield publisher


@pytest.mark.parametrize("kind", SOURCES)
def test_a_sync_into_mariadb_is_loaded_published_streamed_and_agrees_with_its_source(
    kind: str, warehouse: Connection
) -> None:
    with SOURCES[kind](f"md_{kind}") as bank:
        bank.plan = replace(bank.plan, destinations=(plan_of(NAME),))
        assert synced(bank, before=BEFORE, after=AFTER) == dict.fromkeys(("account", "audit"), Verdict.MATCH)
        with closing(mariadb(warehouse)) as session, session.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {NAME}.account ORDER BY id")
            assert cursor.fetchall() == ((1, 1, "ü€😀"), (4, 4, None), (20, None, "tail "))
            cursor.execute(f"SELECT * FROM {NAME}.audit ORDER BY memo")
            assert cursor.fetchall() == ((None, None), *[(1, "same")] * 3, (1, "same "))
            cursor.execute(f"SELECT COUNT(*) FROM {NAME}_seamline.finding")
            assert cursor.fetchall() == ((0,),)
