"""Whether the services of docker-compose.yml are at work: `python -m seamline.stack.container_health scheduler` is the
health check of one, and `doctor` asks after all in a container.

A check runs every few seconds: nothing of Airflow is imported, only its API asked.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from seamline import settings
from seamline.domain.errors import SeamlineError
from seamline.stack.kafka import http_answers

STREAM_HOST = "stream_host"
POOL = "default"
# Parts of what Airflow's API says of itself, each by its own heartbeat in Airflow's database.
AIRFLOW_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


def main(arguments: Sequence[str]) -> int:
    """Print what is wrong; exit code 0 where nothing is."""
    (part,) = arguments
    wrong = _stream_host() if part == STREAM_HOST else of_airflow(part, http_answers(_airflow_url()))
    if wrong:
        sys.stderr.write(f"{wrong}\n")
    return 1 if wrong else 0


def servers() -> Iterator[tuple[str, str]]:
    """The title of each server that this container needs, and what is wrong with it: empty where it answers."""
    yield "Platform database and stream host", _stream_host()
    yield "Kafka", _kafka()
    yield "Kafka Connect", _connect()
    answer = http_answers(_airflow_url())
    for part in AIRFLOW_PARTS:
        yield f"Airflow's {part}", of_airflow(part, answer)


def of_airflow(part: str, answer: Any) -> str:
    """What is wrong with a part of Airflow, by what its API server answered; empty where it is well."""
    if part not in AIRFLOW_PARTS:
        return f"there is no part `{part}` of Airflow: {', '.join(AIRFLOW_PARTS)}"
    if not isinstance(answer, dict):
        return "Airflow's API server does not answer"
    said = (answer.get(part) or {}).get("status")
    return "" if said == "healthy" else f"Airflow says that its {part} is {said or 'unknown'}"


def _airflow_url() -> str:
    """Where Airflow's API server says how its parts are: beside the address by which tasks reach it."""
    address = settings.process_environment().get("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "")
    return f"{address.split('/execution', 1)[0]}/api/v2/monitor/health"


def _stream_host() -> str:
    # Only here: the checks of Airflow need no database.
    from seamline import registry

    try:
        with closing(registry.director()) as director:
            held = {host.pool for host in director.hosts() if host.is_alive}
    except SeamlineError as error:
        return str(error)
    return "" if POOL in held else f"no stream host holds pool {POOL}"


def _kafka() -> str:
    from seamline.adapters.connections import resolve
    from seamline.adapters.kafka import client

    try:
        known = client.client_settings(resolve("kafka"))
        admin = client.admin_client(known)
        client.asked(lambda: admin.list_topics(timeout=5), doing="name its topics", settings=known)
    except SeamlineError as error:
        return str(error)
    return ""


def _connect() -> str:
    from seamline.adapters.connect.rest import ConnectClient
    from seamline.adapters.connections import resolve

    try:
        worker = ConnectClient(resolve("connect"))
    except SeamlineError as error:
        return str(error)
    return "" if worker.is_healthy() else f"no worker answers at {worker.url}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
