"""A platform database by its connection id, as every process of a test finds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from seamline.platform.database import CONNECTION_ID
from tests.conftest import RunningStack
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server


@contextmanager
def platform_known(server: Server, stack: RunningStack) -> Iterator[None]:
    known = replace(stack.connection("postgres_root"), database=server.name)
    with known_by_id(known, CONNECTION_ID, "postgres"):
        yield
