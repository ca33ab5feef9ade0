"""Connections of Airflow's secrets backend for those who know no Airflow: stream hosts, Spark, and Connect.

They all read the connections file. Where SEAMLINE_CONNECTIONS_FROM_AIRFLOW names ids, each task of ours first writes
there what Airflow says of them now: its secrets backend, its variables AIRFLOW_CONN_<ID>, or its database. The watch of
all streams does so every two minutes, so a login that was rotated reaches a running stream within that time.
"""

import logging
from typing import Any

from seamline import settings
from seamline.adapters import connections
from seamline.domain.errors import ConfigError

log = logging.getLogger(__name__)


def take_from_airflow() -> None:
    known = settings.load()
    if not known.from_airflow:
        return
    entries = {connection_id: _entry(connection_id) for connection_id in known.from_airflow}
    if connections.put(entries, within=known):
        log.info("the connections file was brought up to what Airflow knows: %s", ", ".join(known.from_airflow))


def _entry(connection_id: str) -> dict[str, Any]:
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import BaseHook

    try:
        found = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException as exc:
        raise ConfigError(
            f"SEAMLINE_CONNECTIONS_FROM_AIRFLOW names `{connection_id}`, and Airflow knows no such connection",
            hint="add it to Airflow's secrets backend, or take it out of that variable",
        ) from exc
    names = {"conn_type": found.conn_type, "host": found.host, "port": found.port, "schema": found.schema}
    return {**names, "login": found.login, "password": found.password, "extra": found.extra_dejson}
