"""A test's own databases by connection ids, as every process resolves any other."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from seamline.adapters.connections import Connection
from seamline.plan.model import DestinationPlan
from tests.integration.databases import writer_of


@contextmanager
def known_by_id(connection: Connection, connection_id: str, kind: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*_variable(connection, connection_id, kind))
        yield


def destination_plan(connection_id: str, schema: str) -> DestinationPlan:
    """A destination of two logins, as `destination_known_by_id` makes them known."""
    return DestinationPlan("warehouse", "postgres", connection_id, schema, writer_connection=f"{connection_id}_writer")


@contextmanager
def destination_known_by_id(publisher: Connection, connection_id: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in destination_variables(publisher, connection_id).items():
            patch.setenv(name, value)
        yield


def destination_variables(publisher: Connection, connection_id: str) -> dict[str, str]:
    """What leads a process to both logins of a destination; the writer's is `<id>_writer`."""
    writer = _variable(writer_of(publisher), f"{connection_id}_writer", "postgres")
    return dict([_variable(publisher, connection_id, "postgres"), writer])


def _variable(connection: Connection, connection_id: str, kind: str) -> tuple[str, str]:
    where = f"{connection.login}:{quote(connection.password, safe='')}@{connection.host}:{connection.port}"
    return f"SEAMLINE_CONNECTION_{connection_id.upper()}", f"{kind}://{where}/{connection.database}"
