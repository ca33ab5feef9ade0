"""Servers that only some of these tests need."""

from collections.abc import Iterator

import pytest

from tests.conftest import RunningStack
from tests.integration.conftest import mysql_root
from tests.integration.connect_worker import ConnectWorker, connect_worker

__all__ = ["mysql_root"]


@pytest.fixture(scope="session")
def killed_at_will(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    """A Connect worker beside that of the stack. Its start costs seconds of CPU: all who kill it share one."""
    folder = tmp_path_factory.mktemp("connect")
    with connect_worker(stack.settings, stack.connection("kafka"), name="capture", folder=folder) as one:
        yield one


@pytest.fixture
def worker(stack: RunningStack, killed_at_will: ConnectWorker) -> ConnectWorker:
    """It runs, and knows the right password, whatever became of the test before."""
    capture = stack.connection("core_bank_capture")
    killed_at_will.write_secrets(
        {"core_bank_capture.user": capture.login, "core_bank_capture.password": capture.password}
    )
    if not killed_at_will.is_running:
        killed_at_will.start()
    return killed_at_will
