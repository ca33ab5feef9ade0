"""Airflow's four processes: environment, commands, database migration, readiness."""

import json
import subprocess
from importlib.metadata import version
from urllib.parse import quote, urlencode

from seamline.adapters.connections import resolve
from seamline.adapters.tls import libpq_tls
from seamline.domain.errors import TerminalError
from seamline.stack import credentials, postgres
from seamline.stack.kafka import http_answers
from seamline.stack.layout import Layout
from seamline.stack.server_settings import AIRFLOW

# Scheduler and triggerer would serve their logs on every interface; the API server reads the same files.
_COMMANDS = {
    "airflow-api": ("api-server", "--workers", "1"),
    "airflow-scheduler": ("scheduler", "--skip-serve-logs"),
    "airflow-dags": ("dag-processor",),
    "airflow-triggerer": ("triggerer", "--skip-serve-logs"),
}


def command(layout: Layout, program: str) -> tuple[str, ...]:
    return (str(layout.venv_bin / "airflow"), *_COMMANDS[program])


def environment(layout: Layout) -> dict[str, str]:
    """Airflow's own variables: where it lives, its database, its keys."""
    made = credentials.load_or_make(layout)
    own = resolve("airflow_db", within=layout.settings)
    root, url = layout.settings.root, f"http://127.0.0.1:{layout.settings.ports.airflow}"
    database = f"{own.login}:{quote(own.password)}@{own.host}:{own.port}/{own.database}"
    if tls := libpq_tls(own):
        database += f"?{urlencode(tls)}"
    return {
        **AIRFLOW,
        # `up` makes the pools.
        "SEAMLINE_POOLS": "1",
        "AIRFLOW_HOME": str(layout.airflow),
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(layout.airflow / "logs"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(layout.airflow_passwords),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(layout.settings.ports.airflow),
        "AIRFLOW__API__SECRET_KEY": made["airflow_secret_key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": made["airflow_jwt"],
        "AIRFLOW__CORE__FERNET_KEY": made["airflow_fernet"],
        "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(layout.settings.connections)}),
    }


def migrate(layout: Layout, variables: dict[str, str]) -> None:
    """Bring Airflow's database to this Airflow's version, unless this database was brought there before."""
    layout.airflow.mkdir(parents=True, exist_ok=True)
    done = layout.airflow / "migrated"
    wanted = f"{version('apache-airflow')} {postgres.system_identifier(layout)}"
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    result = subprocess.run(
        [str(layout.venv_bin / "airflow"), "db", "migrate"],
        env=variables,
        cwd=layout.airflow,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if result.returncode != 0:
        raise TerminalError(
            f"Airflow's database could not be migrated:\n    {(result.stdout + result.stderr).strip()[-2000:]}",
            hint="the reason is above",
        )
    done.write_text(wanted, encoding="utf-8")


def is_ready(layout: Layout) -> bool:
    """All four say that they are well, each by its own heartbeat in Airflow's database."""
    health = http_answers(f"http://127.0.0.1:{layout.settings.ports.airflow}/api/v2/monitor/health")
    if not isinstance(health, dict):
        return False
    parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    return all((health.get(part) or {}).get("status") == "healthy" for part in parts)
