"""A PostgreSQL table is published while eight sessions write to it, twelve times, each with a capture of its own: what
its snapshot holds and what the log holds of it is together what the source has, with no row lost and none sent twice.
"""

import pytest

from tests.conftest import RunningStack
from tests.fault.real.report import Tally
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.test_postgres_snapshot import TABLES, WAREHOUSE, WRITERS, a_table_is_published_amid_writers

ROUNDS = 12


def test_the_rounds_have_eight_writers() -> None:
    assert WRITERS == 8


@pytest.fixture(autouse=True)
def small_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many transactions around the moment, and not long ones, are what a round is about; all have 40 minutes."""
    monkeypatch.setattr("tests.integration.bank_writers._LARGE", 300)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_table_that_is_published_amid_eight_writers_is_exact_in_every_round(
    number: int, stack: RunningStack, tally: Tally
) -> None:
    name = WAREHOUSE.connection
    with (
        captured_postgres("added_pg", create=(ACCOUNT, AUDIT, FULL), tables=TABLES, destinations=(WAREHOUSE,)) as bank,
        postgres_database(name) as warehouse,
        destination_known_by_id(warehouse, name),
    ):
        bank.ensure()
        bank.execute("CREATE TABLE later (id bigint PRIMARY KEY, a int, memo text)")
        a_table_is_published_amid_writers(bank, warehouse, "later", number=number)
    tally.proven[f"postgres: a table published amid {WRITERS} writers, exact"] += 1
