"""Columns that a PostgreSQL source computes: PostgreSQL 18 publishes those that are stored."""

import pytest

from seamline.domain.errors import SchemaConflict
from tests.conftest import RunningStack
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed

PRICED = (
    "CREATE TABLE priced (id int PRIMARY KEY, net numeric(12,2),"
    " gross numeric(12,2) GENERATED ALWAYS AS (net * 1.2) STORED)",
    "CREATE TABLE shown (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL)",
)


def test_a_stored_generated_column_arrives_once_the_publication_has_it_and_a_virtual_one_is_refused(
    stack: RunningStack,
) -> None:
    with (
        captured_postgres("generated_pg", create=PRICED, tables=("priced", "shown")) as bank,
        postgres_database("generated_pg_warehouse") as warehouse,
    ):
        with pytest.raises(SchemaConflict, match="gross.*publish_generated_columns = stored"):
            bank.source.catalogue(["priced"])
        bank.execute(f"ALTER PUBLICATION {bank.source_plan.publication} SET (publish_generated_columns = stored)")
        with pytest.raises(SchemaConflict, match="twice.*publish_generated_columns = stored"):
            bank.source.catalogue(["shown"])
        with streamed(bank, warehouse, "priced") as stream:
            stream.start()
            bank.execute(
                "INSERT INTO priced VALUES (1, 10), (2, NULL), (3, -0.01)", "UPDATE priced SET net = 20 WHERE id = 1"
            )
            stream.wait_until_applied()
            assert stream.query("SELECT id, gross::text FROM live.priced ORDER BY id") == [
                (1, "24.00"),
                (2, None),
                (3, "-0.01"),
            ]
            assert stream.differences("priced") == {}
