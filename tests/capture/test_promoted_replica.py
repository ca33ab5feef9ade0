"""A replica that was promoted holds every row, every marker and, with MariaDB, every GTID; its log is another one."""

from collections.abc import Iterator

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, lost_by_name, marker_in_log
from tests.integration.captured_postgres import captured_postgres
from tests.integration.replicated import TakeOver, replicated_mariadb, replicated_postgres
from tests.integration.watched import watched

KINDS = {
    "mariadb": (replicated_mariadb, captured, "calls itself server_id 8, and the log is of server_id 7"),
    "postgres": (
        replicated_postgres,
        captured_postgres,
        "on timeline 00000002, and the log is of .* on timeline 00000001",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def take_over(stack: RunningStack, kind: str) -> Iterator[TakeOver]:
    with KINDS[kind][0]() as take_over:
        yield take_over


@pytest.fixture
def bank(take_over: TakeOver, kind: str) -> Iterator[Captured]:
    with KINDS[kind][1](f"promoted_{kind}") as one:
        yield one


def test_a_promoted_replica_is_named_within_a_minute_and_not_gone_on_with(
    bank: Captured, take_over: TakeOver, kind: str
) -> None:
    bank.ensure()
    bank.execute("INSERT INTO account VALUES (1, 1, 'of the first')")
    marker_in_log(bank)
    with watched(bank) as alarms:
        take_over()
        assert bank.rows("account") == [(1, 1, "of the first")]
        bank.execute("INSERT INTO account VALUES (2, 2, 'of the replica')")
        assert "capture reset" in alarms.name_in_time(KINDS[kind][2])
    end = bank.topics.end_offset()
    refused = lost_by_name(bank, KINDS[kind][2])
    assert "onboard the syncs of this source again" in refused.hint
    assert bank.topics.end_offset() == end
