"""Passwords and keys of one local stack: made once, kept in files that only their owner reads."""

import base64
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
)
# Connections whose login and password Connect may read, so that a connector's settings hold none.
CAPTURE_SUFFIX = "_capture"


def write_private(path: Path, content: str) -> None:
    """Replace a file in one step; at no moment can another user read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)


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
    path = layout.settings.connections
    entries: dict[str, Any] = {}
    if path.exists():
        entries = json.loads(path.read_text(encoding="utf-8"))
    entries.update(_connections(layout, made))
    write_private(path, json.dumps(entries, indent=2) + "\n")
    write_airflow_passwords(layout, made)
    write_private(layout.connect / "secrets.properties", "".join(_connect_secrets(entries)))


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
        "kafka": _entry("kafka", ports.kafka, extra={"bootstrap.servers": f"127.0.0.1:{ports.kafka}"}),
        "connect": _entry("http", ports.connect),
        # Where Airflow's Spark jobs run: here, four tasks at a time. Another master is another line of this entry.
        "spark_default": {"conn_type": "spark", "host": "local[4]"},
    }


def _entry(kind: str, port: int, **more: Any) -> dict[str, Any]:
    return {"conn_type": kind, "host": "127.0.0.1", "port": port, **more}


def _connect_secrets(entries: dict[str, Any]) -> Iterable[str]:
    for name, entry in sorted(entries.items()):
        if name.endswith(CAPTURE_SUFFIX):
            # Java's properties format: a backslash escapes itself, nothing else in a value.
            yield f"{name}.user={_escape(entry.get('login') or '')}\n"
            yield f"{name}.password={_escape(entry.get('password') or '')}\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\")
