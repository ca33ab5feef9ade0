"""Servers of a test's own that take encrypted sessions only, by certificates of a CA of the test's own.

Their certificate is good for `localhost` and not for 127.0.0.1, where they listen. Connections are in a file that the
test may change while something runs: as a secret store whose logins are rotated.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.settings import Ports, process_environment
from seamline.stack import java, kafka, mariadb, postgres
from seamline.stack.layout import Layout
from seamline.stack.port_bases import held_port_base
from seamline.stack.server_settings import MARIADB_DATABASE
from tests.certificates import Authority, Pair
from tests.integration import encrypting_postgres
from tests.integration.replicated import QUICK, Server, hand_to_server, mariadb_is_ready, postgres_is_ready, remove
from tests.waiting import wait_until

HOST = "localhost"
# Their certificate is asked for beside the password: by PostgreSQL and MariaDB of this login, by Kafka of everybody.
WITH_CERTIFICATE = "seamline_capture"


@dataclass
class Secrets:
    """The connections file of the test."""

    path: Path

    def put(self, **entries: dict[str, Any]) -> None:
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.path.write_text(json.dumps({**known, **entries}))
        self.path.chmod(0o600)

    def change(self, connection_id: str, **fields: Any) -> None:
        entry = json.loads(self.path.read_text())[connection_id]
        self.put(**{connection_id: {**entry, **fields}})


@dataclass
class Encrypted:
    """`administrator`s reach their servers, as does every connection of the file."""

    folder: Path
    authority: Authority
    client: Pair
    secrets: Secrets
    postgres: Server
    mariadb: Server
    kafka: "Broker"

    def tls(self, mode: str = "verify-full", **others: str) -> dict[str, str]:
        own = {"sslmode": mode, "sslrootcert": str(self.authority.ca)}
        return {**own, **others}

    def with_certificate(self) -> dict[str, str]:
        return self.tls(sslcert=str(self.client.certificate), sslkey=str(self.client.key))


@dataclass
class Broker:
    layout: Layout
    inner_port: int
    process: "subprocess.Popen[bytes]"

    @property
    def port(self) -> int:
        return self.layout.settings.ports.kafka

    def add_login(self, login: str, password: str) -> None:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.inner_port}", "log_level": 0})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(login, how, password.encode())
        admin.alter_user_scram_credentials([change])[login].result(timeout=30)


@contextmanager
def encrypted() -> Iterator[Encrypted]:
    """All three, and the connections that a bank from MariaDB to PostgreSQL has."""
    known = settings.load()
    folder = known.data / "encrypted"
    authority = Authority(folder / "authority")
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        ports = Ports(running.enter_context(held_port_base(known.home)))
        layout = Layout(replace(known, data=folder / "servers", ports=ports))
        running.callback(remove, folder)
        patch.setenv("SEAMLINE_CONNECTIONS", str(folder / "connections.json"))
        for name in [name for name in process_environment() if name.startswith("SEAMLINE_CONNECTION_")]:
            patch.delenv(name)
        patch.setattr(postgres, "binaries", encrypting_postgres.binaries)
        pair = authority.server(HOST)
        store = Secrets(folder / "connections.json")
        made = Encrypted(
            folder,
            authority,
            authority.client(WITH_CERTIFICATE),
            store,
            running.enter_context(_postgres(layout, authority, pair)),
            running.enter_context(_mariadb(layout, authority, pair)),
            running.enter_context(_kafka(layout, authority, pair)),
        )
        _write_connections(made)
        mariadb.provision(settings.load())
        made.mariadb.administrator = resolve("core_bank_root")
        made.mariadb.ask(f"ALTER USER '{WITH_CERTIFICATE}'@'%' REQUIRE X509")
        made.kafka.add_login("seamline", "kafka-secret")
        yield made


def _write_connections(made: Encrypted) -> None:
    def entry(kind: str, port: int, login: str, database: str, extra: dict[str, Any]) -> dict[str, Any]:
        password = made.postgres.administrator.password
        place = {"conn_type": kind, "host": HOST, "port": port, "schema": database}
        return {**place, "login": login, "password": password, "extra": extra}

    def bank(login: str, extra: dict[str, Any]) -> dict[str, Any]:
        return entry("mysql", made.mariadb.administrator.port, login, MARIADB_DATABASE, extra)

    def warehouse(login: str) -> dict[str, Any]:
        return entry("postgres", made.postgres.administrator.port, login, "postgres", made.tls())

    certificate = made.with_certificate()
    made.secrets.put(
        postgres_root=warehouse("postgres"),
        warehouse=warehouse("warehouse_publisher"),
        warehouse_writer=warehouse("warehouse_writer"),
        core_bank_root=bank("root", made.tls("require")),
        core_bank=bank("seamline_reader", made.tls()),
        core_bank_marker=bank("seamline_reader", made.tls()),
        core_bank_capture=bank(WITH_CERTIFICATE, certificate),
        bank_app=bank("bank_app", made.tls()),
        archive=bank("archive_publisher", made.tls()),
        archive_writer=bank("archive_writer", made.tls()),
        kafka={
            **entry("kafka", made.kafka.port, "seamline", "", {}),
            "password": "kafka-secret",
            "extra": {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "ssl.ca.location": certificate["sslrootcert"],
                "ssl.certificate.location": certificate["sslcert"],
                "ssl.key.location": certificate["sslkey"],
            },
        },
    )


@contextmanager
def _postgres(layout: Layout, authority: Authority, pair: Pair) -> Iterator[Server]:
    password = secrets.token_urlsafe(12)
    root = Connection("postgres_root", "postgres", HOST, layout.settings.ports.postgres, "postgres", password)
    postgres.initialise(layout, {"postgres_root": password})
    lines = [
        f"hostssl all {WITH_CERTIFICATE} 127.0.0.1/32 scram-sha-256 clientcert=verify-full",
        "hostssl all all 127.0.0.1/32 scram-sha-256",
    ]
    (layout.postgres / "pg_hba.conf").write_text("".join(f"{line}\n" for line in lines))
    certificate, key = _for_server(pair, layout)
    files = {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl_ca_file": authority.ca}
    server = Server(layout, replace(root, database="postgres"), postgres.command, postgres_is_ready)
    server.flags = ("-c", "ssl=on", *(part for name, path in files.items() for part in ("-c", f"{name}={path}")))
    with _served(server):
        for login in ("warehouse_publisher", "warehouse_writer"):
            server.ask(f"CREATE ROLE {login} LOGIN PASSWORD '{password}'")
        server.ask(f"CREATE ROLE {WITH_CERTIFICATE} LOGIN REPLICATION PASSWORD '{password}'")
        yield server


@contextmanager
def _mariadb(layout: Layout, authority: Authority, pair: Pair) -> Iterator[Server]:
    root = Connection("core_bank_root", "mysql", HOST, layout.settings.ports.mariadb, "root")
    mariadb.initialise(layout)
    certificate, key = _for_server(pair, layout)
    files = {"ssl-cert": certificate, "ssl-key": key, "ssl-ca": authority.ca}
    server = Server(layout, root, mariadb.command, mariadb_is_ready)
    named = (f"--{name}={path}" for name, path in files.items())
    server.flags = ("--ssl=1", "--require-secure-transport=ON", *named)
    with _served(server):
        yield server


def _for_server(pair: Pair, layout: Layout) -> tuple[Path, Path]:
    """Copies that belong to the account of database servers."""
    made = []
    for path in (pair.certificate, pair.key):
        copy = layout.data / path.name
        if not copy.exists():
            copy.write_bytes(path.read_bytes())
            copy.chmod(0o600)
            hand_to_server(copy)
        made.append(copy)
    return made[0], made[1]


@contextmanager
def _served(server: Server) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.end(QUICK)


@contextmanager
def _kafka(layout: Layout, authority: Authority, pair: Pair) -> Iterator[Broker]:
    """Clients come through SASL_SSL with certificate and login; the broker speaks to itself in the clear."""
    home = str(java.find(layout, process_environment()).home)
    kafka.initialise(layout, {"kafka_cluster_id": "encrypted-00000000000w"}, home)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        inner = int(probe.getsockname()[1])
    ports = layout.settings.ports
    both = layout.data / "kafka-server.pem"
    both.write_bytes(authority.pkcs8(pair) + pair.certificate.read_bytes())
    controller = f"CONTROLLER://127.0.0.1:{ports.kafka_controller}"
    own_settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{ports.kafka},PLAINTEXT://127.0.0.1:{inner},{controller}",
        "advertised.listeners": f"SASL_SSL://{HOST}:{ports.kafka},PLAINTEXT://127.0.0.1:{inner},{controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_plain="plain-secret";'
        ),
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
    }
    with (layout.kafka / "server.properties").open("a", encoding="utf-8") as properties:
        properties.writelines(f"{name}={value}\n" for name, value in own_settings.items())
    with (layout.data / "kafka.log").open("ab") as log:
        process = subprocess.Popen(kafka.broker_command(layout, home), stdout=log, stderr=log, cwd=layout.kafka)
    broker = Broker(layout, inner, process)
    try:
        wait_until(lambda: _answers(inner), timeout_s=90, what="the broker")
        yield broker
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
