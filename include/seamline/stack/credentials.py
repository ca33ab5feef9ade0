"""Passwords and keys of one local stack: made once, kept in files that only their owner reads."""

import base64
import json
import secrets
from typing import Any

from seamline.adapters.connect.handed_over import hand_over
from seamline.adapters.connections import resolve
from seamline.adapters.private_file import write_private
from seamline.stack.layout import Layout
from seamline.stack.server_settings import AIRFLOW_USERS, MARIADB_DATABASE

_PASSWORDS = (
    "postgres_root",
    "seamline_db",
    "warehouse",
    "warehouse_writer",
    "airflow_db",
    "core_bank_root",
    "core_bank",
    "core_bank_capture",
    "bank_app",
    "archive",
    "archive_writer",
)
# Connections whose login and password Connect may read, so that a connector's settings hold none.
CAPTURE_SUFFIX = "_capture"


def load_or_make(layout: Layout) -> dict[str, str]:
    """All secrets of this stack by name. Those that do not exist yet are made; none is ever changed."""
    known: dict[str, str] = {}
    if layout.secrets.exists():
        known = json.loads(layout.secrets.read_text(encoding="utf-8"))
    made = dict(known)
    for name in _PASSWORDS:
        made.setdefault(name, secrets.token_urlsafe(18))
    for user in AIRFLOW_USERS:
        made.setdefault(f"airflow_user_{user}", secrets.token_urlsafe(9))
    made.setdefault("airflow_jwt", secrets.token_urlsafe(64))
    made.setdefault("airflow_secret_key", secrets.token_urlsafe(32))
    made.setdefault("airflow_fernet", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    made.setdefault("kafka_cluster_id", base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("="))
    if made != known:
        write_private(layout.secrets, json.dumps(made, indent=1) + "\n")
    return made


def write_files(layout: Layout, made: dict[str, str]) -> None:
    """Write what the servers and their clients read: connections, Airflow's passwords, Connect's secrets.

    Connections that a person added to the file stay.
    """
    entries = _add_connections(layout, _connections(layout, made))
    write_airflow_passwords(layout, made)
    captures = (resolve(name, within=layout.settings) for name in sorted(entries) if name.endswith(CAPTURE_SUFFIX))
    hand_over(layout.connect / "secrets.properties", *captures)


def add_postgres_login(layout: Layout, connection_id: str, *, login: str, database: str) -> None:
    """Keep one more login of the stack's PostgreSQL as a connection. Its password is made once."""
    made = load_or_make(layout)
    if connection_id not in made:
        made[connection_id] = secrets.token_urlsafe(18)
        write_private(layout.secrets, json.dumps(made, indent=1) + "\n")
    port, password = layout.settings.ports.postgres, made[connection_id]
    entry = _entry("postgres", port, login=login, password=password, schema=database)
    _add_connections(layout, {connection_id: entry})


def _add_connections(layout: Layout, added: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return all that are in the file then."""
    path = layout.settings.connections
    entries: dict[str, dict[str, Any]] = {}
    if path.exists():
        entries = json.loads(path.read_text(encoding="utf-8"))
    entries.update(added)
    write_private(path, json.dumps(entries, indent=2) + "\n")
    return entries


def write_airflow_passwords(layout: Layout, made: dict[str, str]) -> None:
    """Write the file of Airflow's three users, in the form that its simple auth manager reads."""
    passwords = {user: made[f"airflow_user_{user}"] for user in AIRFLOW_USERS}
    write_private(layout.airflow_passwords, json.dumps(passwords) + "\n")


def _connections(layout: Layout, made: dict[str, str]) -> dict[str, dict[str, Any]]:
    ports = layout.settings.ports

    def postgres(login: str, password: str, database: str) -> dict[str, Any]:
        return _entry("postgres", ports.postgres, login=login, password=made[password], schema=database)

    def bank(login: str, password: str) -> dict[str, Any]:
        return _entry("mysql", ports.mariadb, login=login, password=made[password], schema=MARIADB_DATABASE)

    def archive(login: str, password: str) -> dict[str, Any]:
        return _entry("mysql", ports.mariadb, login=login, password=made[password])

    return {
        "postgres_root": postgres("postgres", "postgres_root", "postgres"),
        "seamline_db": postgres("seamline", "seamline_db", "seamline"),
        "airflow_db": postgres("airflow", "airflow_db", "airflow"),
        "warehouse": postgres("warehouse_publisher", "warehouse", "warehouse"),
        "warehouse_writer": postgres("warehouse_writer", "warehouse_writer", "warehouse"),
        "core_bank_root": bank("root", "core_bank_root"),
        "core_bank": bank("seamline_reader", "core_bank"),
        "core_bank_marker": bank("seamline_reader", "core_bank"),
        "core_bank_capture": bank("seamline_capture", "core_bank_capture"),
        "bank_app": bank("bank_app", "bank_app"),
        "archive": archive("archive_publisher", "archive"),
        "archive_writer": archive("archive_writer", "archive_writer"),
        "kafka": _entry("kafka", ports.kafka, extra={"bootstrap.servers": f"127.0.0.1:{ports.kafka}"}),
        "connect": _entry("http", ports.connect),
        # Where Airflow's Spark jobs run: here, four tasks at a time. Another master is another line of this entry.
        "spark_default": {"conn_type": "spark", "host": "local[4]"},
    }


def _entry(kind: str, port: int, **more: Any) -> dict[str, Any]:
    return {"conn_type": kind, "host": "127.0.0.1", "port": port, **more}
