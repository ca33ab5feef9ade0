"""The ways of the streams and of Connect to Kafka, each over a link of its own.

A Kafka client goes to the address that the broker gives it, not to the one that it was given. So the broker gets a
listener for each of the two, and gives there the address of the link that stands before it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seamline.stack import kafka, supervisor
from seamline.stack.layout import Layout
from tests.daemon import free_port
from tests.fault.soak.link import Link, link_to
from tests.waiting import wait_until

_UP_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True)
class KafkaLinks:
    stream: Link
    connect: Link


@contextmanager
def kafka_links(layout: Layout) -> Iterator[KafkaLinks]:
    """Broker and Connect of the stack are started again with the links between them, and without at the end."""
    for_streams, for_connect = free_port(), free_port()
    with (
        link_to("127.0.0.1", for_streams) as stream,
        link_to("127.0.0.1", for_connect) as connect,
        _changed(layout.kafka / "server.properties") as broker,
        _changed(layout.connect / "worker.properties") as worker,
    ):
        broker["listeners"] += f",STREAM://127.0.0.1:{for_streams},CONNECT://127.0.0.1:{for_connect}"
        broker["advertised.listeners"] += f",STREAM://127.0.0.1:{stream.port},CONNECT://127.0.0.1:{connect.port}"
        broker["listener.security.protocol.map"] += ",STREAM:PLAINTEXT,CONNECT:PLAINTEXT"
        worker["bootstrap.servers"] = f"127.0.0.1:{connect.port}"
        broker.write()
        worker.write()
        _start_again(layout)
        yield KafkaLinks(stream, connect)
    _start_again(layout)


class _Properties(dict[str, str]):
    """The settings of a server's file, which counts when the server starts."""

    def __init__(self, file: Path) -> None:
        super().__init__(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())
        self._file = file

    def write(self) -> None:
        self._file.write_text("".join(f"{name}={value}\n" for name, value in self.items()), encoding="utf-8")


@contextmanager
def _changed(file: Path) -> Iterator[_Properties]:
    before = file.read_bytes()
    try:
        yield _Properties(file)
    finally:
        file.write_bytes(before)


def _start_again(layout: Layout) -> None:
    supervisor.stop_programs(layout, ("connect", "kafka"))
    for program, is_ready in (("kafka", kafka.broker_is_ready), ("connect", kafka.connect_is_ready)):
        supervisor.start_program(layout, program)
        wait_until(lambda ready=is_ready: ready(layout), timeout_s=_UP_WITHIN_S, what=f"{program} to be up")  # type: ignore[misc]
