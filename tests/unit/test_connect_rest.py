"""What the client does where a Connect worker takes a request and is silent, or has an answer for the moment only."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import psutil
import pytest

from seamline.adapters.connect import rest
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError


def answer(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectClient]:
    monkeypatch.setattr(rest, "_REQUEST_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield ConnectClient(Connection("connect", "http", "127.0.0.1", server.getsockname()[1]))


def test_offsets_that_are_not_reported_in_time_may_be_held_by_the_transaction_of_a_task_that_was_given_up(
    silent: ConnectClient,
) -> None:
    with pytest.raises(TransientError, match=r"did not answer GET /connectors/one/offsets in 0\.2 s") as raised:
        silent.offset("one")
    assert "ends by itself within 10 minutes" in raised.value.hint


def test_any_other_silence_sends_to_the_log_of_connect(silent: ConnectClient) -> None:
    with pytest.raises(TransientError, match=r"did not answer GET /connectors/one/status") as raised:
        silent.status("one")
    assert "seamline status" in raised.value.hint


@pytest.fixture
def wavering() -> Iterator[ConnectClient]:
    """Answers the first request as Connect 4.3.1 does while Kafka still ends a transaction of the connector's id."""
    answers = iter([(500, b'{"message":"Failed to modify offsets for source connector one"}'), (200, b"{}")])

    class Worker(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self, *next(answers))

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Worker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield ConnectClient(Connection("connect", "http", "127.0.0.1", server.server_port))
        server.shutdown()
        thread.join()
    assert next(answers, None) is None, "it was not asked again"


def test_offsets_that_could_not_be_written_at_the_first_time_are_written_at_the_second(wavering: ConnectClient) -> None:
    wavering.put_offset("one", partition={"server": "one"}, offset={"pos": 4})


def test_a_connector_that_is_gone_and_whose_status_is_still_reported_is_deleted_already() -> None:
    """Seen behind a deletion: Connect 4.3.1 keeps the status for a moment."""
    asked = list[str]()

    class Worker(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, b'{"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}')

        def do_PUT(self) -> None:
            self._answer(404, b'{"error_code": 404, "message": "Unknown connector one"}')

        def _answer(self, status: int, body: bytes) -> None:
            asked.append(f"{self.command} {self.path}")
            answer(self, status, body)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Worker) as server:
        threading.Thread(target=server.serve_forever).start()
        client = ConnectClient(Connection("connect", "http", "127.0.0.1", server.server_port))
        status = client.status("one")
        assert status is not None and status.is_running
        client.delete("one")
        server.shutdown()
    assert asked == ["GET /connectors/one/status", "PUT /connectors/one/stop"]


def test_no_connection_is_held_between_calls() -> None:
    class Worker(BaseHTTPRequestHandler):
        # Of this version on it is the client who says when a connection ends.
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, 200, b"[]")

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Worker) as server:
        threading.Thread(target=server.serve_forever).start()
        client = ConnectClient(Connection("connect", "http", "127.0.0.1", server.server_port))
        assert client.is_healthy()
        assert client.plugin_versions() == {}
        connections = psutil.Process().net_connections("tcp")
        server.shutdown()
    assert not [one for one in connections if one.raddr and one.raddr.port == server.server_port]
