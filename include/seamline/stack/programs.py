"""How each program of the stack is started: command, environment, working folder."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seamline import settings
from seamline.stack import airflow, java, kafka, mariadb, postgres
from seamline.stack.layout import Layout

# Variables of the person who called `up` that would change what a server does.
_NOT_INHERITED = ("AIRFLOW", "_AIRFLOW", "SPARK_", "PYTHON", "PGDATA", "PGHOST", "PGPORT", "PGUSER", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Launch:
    """One program, ready to become. `is_server`: it runs as the database servers' account."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    is_server: bool = False


def launch(name: str, layout: Layout) -> Launch:
    """The launch of the program with this name."""
    return _LAUNCHES[name](layout)


def environment(layout: Layout) -> dict[str, str]:
    """What every program of the stack sees: this machine's variables, our settings, the chosen Java and Python."""
    own = settings.process_environment()
    kept = {name: value for name, value in own.items() if not name.startswith(_NOT_INHERITED)}
    python = str(layout.python)
    return {
        **kept,
        **settings.as_environment(layout.settings),
        "PATH": f"{layout.venv_bin}:{own.get('PATH', '/usr/bin:/bin')}",
        "LANG": "C.UTF-8",
        "JAVA_HOME": str(java.find(layout, own).home),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A proxy for the registries must never stand between two parts on one machine.
        "no_proxy": _with_loopback(own.get("no_proxy", "")),
        "NO_PROXY": _with_loopback(own.get("NO_PROXY", "")),
    }


def airflow_environment(layout: Layout) -> dict[str, str]:
    """What Airflow's processes, and its command line used by a person, see."""
    return {**environment(layout), **airflow.environment(layout)}


def _with_loopback(hosts: str) -> str:
    known = [host for host in hosts.split(",") if host]
    return ",".join(dict.fromkeys([*known, "127.0.0.1", "localhost"]))


def _postgres(layout: Layout) -> Launch:
    return Launch(postgres.command(layout), environment(layout), layout.postgres, is_server=True)


def _mariadb(layout: Layout) -> Launch:
    return Launch(mariadb.command(layout), environment(layout), layout.mariadb, is_server=True)


def _kafka(layout: Layout) -> Launch:
    variables = environment(layout)
    return Launch(kafka.broker_command(layout, variables["JAVA_HOME"]), variables, layout.kafka)


def _connect(layout: Layout) -> Launch:
    variables = environment(layout)
    return Launch(kafka.connect_command(layout, variables["JAVA_HOME"]), variables, layout.connect)


def _airflow(layout: Layout, *, program: str) -> Launch:
    return Launch(airflow.command(layout, program), airflow_environment(layout), layout.airflow)


def _stream_host(layout: Layout) -> Launch:
    # Not by spark-submit: that puts the JVM above the driver, and a stop signal would end it before the streams.
    return Launch((str(layout.python), *stream_host_arguments(layout)), environment(layout), layout.data)


def _bank_writers(layout: Layout) -> Launch:
    command = (str(layout.python), "-m", "seamline.demo.writers")
    return Launch(command, environment(layout), layout.data)


def stream_host_arguments(layout: Layout) -> tuple[str, ...]:
    return (str(layout.settings.root / "spark_jobs" / "stream_host.py"), "--pool", "default")


_LAUNCHES: dict[str, Callable[[Layout], Launch]] = {
    "postgres": _postgres,
    "mariadb": _mariadb,
    "kafka": _kafka,
    "connect": _connect,
    "airflow-api": partial(_airflow, program="airflow-api"),
    "airflow-scheduler": partial(_airflow, program="airflow-scheduler"),
    "airflow-dags": partial(_airflow, program="airflow-dags"),
    "airflow-triggerer": partial(_airflow, program="airflow-triggerer"),
    "stream_host": _stream_host,
    "bank_writers": _bank_writers,
}
