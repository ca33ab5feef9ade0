"""Servers that only some of these tests need."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from tests import mysql_server
from tests.conftest import RunningStack


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--writers", type=int, default=1, help="how many write while live tables are compared")
    parser.addoption("--comparisons", type=int, default=4, help="how often live tables are compared meanwhile")
    parser.addoption("--mode", default="barrier", choices=["barrier", "log"], help="how, where the source is a MariaDB")


@pytest.fixture(scope="session")
def mysql_root(stack: RunningStack) -> Iterator[Connection]:
    """A MySQL, reached as its root. Where it cannot be had, every test that asks for it is an error by its own name."""
    with mysql_server.running(stack.settings) as root:
        yield root
