"""A broker that takes a producer's bytes slowly: what a test kills in mid-transaction is then surely not through."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from seamline.adapters.connections import Connection
from seamline.adapters.kafka.client import client_settings
from seamline.settings import Settings, process_environment
from seamline.stack import java
from seamline.stack.layout import Layout


@contextmanager
def producer_quota(
    settings: Settings, kafka_connection: Connection, *, client_id: str, bytes_per_s: int
) -> Iterator[None]:
    """Kafka's own tool sets it: no Python client has that call."""
    _configure(settings, kafka_connection, client_id, "--add-config", f"producer_byte_rate={bytes_per_s}")
    try:
        yield
    finally:
        _configure(settings, kafka_connection, client_id, "--delete-config", "producer_byte_rate")


def _configure(settings: Settings, kafka_connection: Connection, client_id: str, *change: str) -> None:
    layout = Layout(settings)
    home = java.find(layout, process_environment()).home
    servers = str(client_settings(kafka_connection)["bootstrap.servers"])
    command = [f"{home}/bin/java", "-cp", f"{layout.jars / 'kafka'}/*", "kafka.admin.ConfigCommand"]
    command += ["--bootstrap-server", servers, "--alter", "--entity-type", "clients", "--entity-name", client_id]
    result = subprocess.run([*command, *change], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
