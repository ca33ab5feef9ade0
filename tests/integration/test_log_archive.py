"""A destination that is late for the log comes through its archive, on real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import PositionLost
from tests.conftest import RunningStack
from tests.integration.archived import moved_into_archive
from tests.integration.captured import NULLS_AND_DEFAULTS, Captured, captured, marker_in_log
from tests.integration.databases import postgres_database
from tests.integration.streamed import streamed


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("archive_test") as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("archive_test") as connection:
        yield connection


def test_a_stream_that_stands_before_the_log_goes_on_through_its_archive(
    bank: Captured, warehouse: Connection, tmp_path: Path
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        bank.execute(*NULLS_AND_DEFAULTS)
        marker_in_log(bank)
        archived = moved_into_archive(stream.plan, bank.kafka, tmp_path)
        bank.execute("INSERT INTO account VALUES (9, 9, 'behind the seam')")
        stream.start()
        with pytest.raises(PositionLost, match="offsets were deleted"):
            stream.wait_until_applied()
        stream.stop()
        stream.plan = archived
        stream.start()
        stream.wait_until_applied()
        stream.stop()
        assert stream.differences("account", "audit") == {}
        assert stream.query("SELECT count(*) FROM live.account") == [(4,)]
