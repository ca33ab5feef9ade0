"""A test's own databases by connection ids, as every process resolves any other."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from seamline.adapters.connections import Connection


@contextmanager
def known_by_id(connection: Connection, connection_id: str, kind: str) -> Iterator[None]:
    where = f"{connection.login}:{quote(connection.password, safe='')}@{connection.host}:{connection.port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{connection_id.upper()}", f"{kind}://{where}/{connection.database}")
        yield
