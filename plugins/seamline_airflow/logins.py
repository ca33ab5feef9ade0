"""Connections of Airflow's secrets backend for those who know no Airflow: stream hosts, Spark, and Connect.

They all read the connections file. Where SEAMLINE_CONNECTIONS_FROM_AIRFLOW names ids, each task of ours first writes
there what Airflow says of them now: its secrets backend, its variables AIRFLOW_CONN_<ID>, or its database. The watch of
all streams does so every two minutes, so a login that was rotated reaches a running stream within that time.
"""

import json
import logging
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters import connections
from seamline.domain.errors import ConfigError

log = logging.getLogger(__name__)


def take_from_airflow() -> None:
    known = settings.load()
    if not known.from_airflow:
        return
    _refuse_own_file(known.connections)
    before = connections.known_ids(within=known)
    entries = {connection_id: _entry(connection_id, before) for connection_id in known.from_airflow}
    if connections.put({name: entry for name, entry in entries.items() if entry}, within=known):
        log.info("the connections file was brought up to what Airflow knows: %s", ", ".join(known.from_airflow))


def _refuse_own_file(path: Path) -> None:
    """Airflow asks its secrets backend first, and so would hear from this file what stands in it already."""
    from airflow.sdk.configuration import conf

    given = conf.getjson("secrets", "backend_kwargs", fallback=None)
    named = str(given.get("connections_file_path") or "") if isinstance(given, dict) else ""
    if named and Path(named).resolve() == path:
        raise ConfigError(
            f"SEAMLINE_CONNECTIONS_FROM_AIRFLOW is set, and Airflow's own secrets backend reads {path}",
            hint="change connections in that file and take the variable away, or give Airflow another secrets backend",
        )


def _entry(connection_id: str, known_before: frozenset[str]) -> dict[str, Any]:
    """What Airflow says of it now; {} where it says nothing and the connection was known before.

    Airflow says "not found" also where its API server or a secrets backend does not answer.
    """
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import BaseHook

    try:
        found = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException as exc:
        if connection_id in known_before:
            log.warning("Airflow does not find connection %s now: what it was before is used", connection_id)
            return {}
        raise ConfigError(
            f"SEAMLINE_CONNECTIONS_FROM_AIRFLOW names `{connection_id}`, and Airflow knows no such connection",
            hint="add it to Airflow's secrets backend, or take it out of that variable",
        ) from exc
    _require_json(connection_id, found.extra)
    names = {"conn_type": found.conn_type, "host": found.host, "port": found.port, "schema": found.schema}
    return {**names, "login": found.login, "password": found.password, "extra": found.extra_dejson}


def _require_json(connection_id: str, extra: str | None) -> None:
    """Airflow's own reading of an extra that is no JSON is an empty one, which asks for no TLS."""
    try:
        json.loads(extra or "{}")
    except ValueError:
        # Its words could quote a password.
        raise ConfigError(
            f"The extra of Airflow's connection `{connection_id}` is no JSON", hint="correct it where Airflow has it"
        ) from None
