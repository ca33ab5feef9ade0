"""A source whose data folder is put back from a cold copy: the same server, the same timeline, another history."""

from collections.abc import Iterator

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, lost_by_name, told_marker
from tests.integration.captured_postgres import captured_postgres
from tests.integration.replicated import Backup, restorable_mariadb, restorable_postgres

KINDS = {
    "mariadb": (restorable_mariadb, captured, "restored"),
    "postgres": (restorable_postgres, captured_postgres, "restored"),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backup(stack: RunningStack, kind: str) -> Iterator[Backup]:
    with KINDS[kind][0]() as backup:
        yield backup


@pytest.fixture
def bank(backup: Backup, kind: str) -> Iterator[Captured]:
    with KINDS[kind][1](f"put_back_{kind}") as one:
        yield one


def test_a_source_that_was_put_back_from_a_backup_is_named_and_not_gone_on_with(
    bank: Captured, backup: Backup, kind: str
) -> None:
    bank.ensure()
    bank.execute("INSERT INTO account VALUES (1, 1, 'in the backup')")
    told_marker(bank)
    backup.take()
    bank.client.restart_all(bank.connector.name)
    bank.ensure()
    bank.execute("INSERT INTO account VALUES (2, 2, 'told, and gone')")
    told_marker(bank)
    backup.put_back()
    assert bank.rows("account") == [(1, 1, "in the backup")]
    bank.execute("INSERT INTO account VALUES (3, 3, 'of another history')")
    # As the watch of the capture does with a silent one.
    bank.client.restart_all(bank.connector.name)
    bank.wait_until_failed()
    end = bank.topics.end_offset()
    lost = lost_by_name(bank, KINDS[kind][2])
    assert "capture reset" in lost.hint
    assert bank.topics.end_offset() == end
