"""What the client says of a Connect worker that takes a request and is silent."""

import socket
from collections.abc import Iterator

import pytest

from seamline.adapters.connect import rest
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectClient]:
    monkeypatch.setattr(rest, "_REQUEST_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield ConnectClient(Connection("connect", "http", "127.0.0.1", server.getsockname()[1]))


def test_offsets_that_are_not_told_in_time_may_be_held_by_the_transaction_of_a_task_that_was_given_up(
    silent: ConnectClient,
) -> None:
    with pytest.raises(TransientError, match=r"did not answer GET /connectors/one/offsets in 0\.2 s") as told:
        silent.offset("one")
    assert "ends by itself within 10 minutes" in told.value.hint


def test_any_other_silence_sends_to_the_log_of_connect(silent: ConnectClient) -> None:
    with pytest.raises(TransientError, match=r"did not answer GET /connectors/one/status") as told:
        silent.status("one")
    assert "seamline status" in told.value.hint
