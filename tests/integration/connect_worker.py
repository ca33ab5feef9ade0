"""A Connect worker of a test's own, which it may kill: own group, topics, port and secrets, on the stack's Kafka."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.settings import Settings, process_environment
from seamline.stack import java, kafka
from seamline.stack.layout import Layout
from seamline.stack.server_settings import CONNECT
from tests.daemon import free_port
from tests.waiting import wait_until

_CLIENTS = ("", "producer.", "consumer.", "admin.")
_TOPICS = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")


class ConnectWorker:
    """`name` is part of its topics' names; `folder` holds its files."""

    def __init__(
        self,
        settings: Settings,
        kafka_connection: Connection,
        *,
        name: str,
        folder: Path,
        plugins: Path | None = None,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = Layout(settings)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._kafka = client_settings(kafka_connection)
        self.port = free_port()
        self.secrets_file = folder / "secrets.properties"
        self.kafka_servers = str(self._kafka["bootstrap.servers"])
        self._topics = {key: f"seamline-test.{name}.{key.split('.')[0]}" for key in _TOPICS}
        values = {
            **CONNECT,
            **self._topics,
            "group.id": f"seamline-test-{name}",
            "bootstrap.servers": self.kafka_servers,
            "listeners": f"http://127.0.0.1:{self.port}",
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(self.port),
            "plugin.path": str(plugins or self._layout.connect_plugins),
            "config.providers.file.param.allowed.paths": str(folder),
            # Of the worker itself, and of the clients that it opens for its connectors.
            **{f"{own}{key}": value for key, value in (security or {}).items() for own in _CLIENTS},
        }
        self._properties = folder / "worker.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")

    @property
    def connection(self) -> Connection:
        return Connection("connect", "http", "127.0.0.1", self.port)

    def write_secrets(self, values: Mapping[str, str]) -> None:
        self.secrets_file.write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")

    def start(self) -> None:
        home = java.find(self._layout, process_environment()).home
        command = [*kafka.connect_command(self._layout, str(home))[:-1], str(self._properties)]
        with (self._folder / "connect.log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self._folder)
        client = ConnectClient(self.connection)
        wait_until(client.is_healthy, timeout_s=90, what="the test's Connect worker")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """As `kill -9`: nothing is flushed, its Kafka transaction stays open."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log(self) -> str:
        return (self._folder / "connect.log").read_text(encoding="utf-8", errors="replace")

    def suspend(self, lasting_s: float) -> None:
        """As a machine that sleeps: everything waits, no connection is closed by this side."""
        assert self._process is not None
        until = time.monotonic() + lasting_s
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: time.monotonic() >= until, timeout_s=lasting_s + 10, what="the end of its sleep")
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
        topics = CaptureTopics(self._kafka)
        for topic in self._topics.values():
            topics.delete(topic)


@contextmanager
def connect_worker(
    settings: Settings,
    kafka_connection: Connection,
    *,
    name: str,
    folder: Path,
    plugins: Path | None = None,
    security: Mapping[str, str] | None = None,
) -> Iterator[ConnectWorker]:
    """`plugins`: other connectors than those of the stack. `security`: of its Kafka clients, in Java's words."""
    worker = ConnectWorker(settings, kafka_connection, name=name, folder=folder, plugins=plugins, security=security)
    try:
        worker.start()
        yield worker
    finally:
        worker.close()
