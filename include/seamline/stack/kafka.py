"""The local Kafka broker (which is its own controller) and the Connect worker: settings files, commands, readiness."""

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from seamline.domain.errors import TerminalError
from seamline.stack.layout import Layout
from seamline.stack.server_settings import CONNECT, KAFKA, LOG4J2

HEAP = ("-Xms256m", "-Xmx512m", "-XX:+UseG1GC")


def write_broker_files(layout: Layout) -> None:
    ports = layout.settings.ports
    broker, controller = f"127.0.0.1:{ports.kafka}", f"127.0.0.1:{ports.kafka_controller}"
    own = {
        **KAFKA,
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(layout.kafka / "log"),
    }
    layout.kafka.mkdir(parents=True, exist_ok=True)
    _write_properties(layout.kafka / "server.properties", own)
    (layout.kafka / "log4j2.yaml").write_text(LOG4J2, encoding="utf-8")


def initialise(layout: Layout, made: dict[str, str], java_home: str) -> None:
    """Format the log folder unless that is done. Its mark is written last by the tool itself."""
    write_broker_files(layout)
    if (layout.kafka / "log" / "meta.properties").exists():
        return
    command = [
        f"{java_home}/bin/java", "-cp", _class_path(layout), "kafka.tools.StorageTool", "format", "--standalone",
        # In one word: the id may begin with a dash, which the tool would take for an option.
        f"--cluster-id={made['kafka_cluster_id']}", "-c", str(layout.kafka / "server.properties"),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode != 0:
        raise TerminalError(
            f"Kafka's log folder could not be formatted:\n    {(result.stdout + result.stderr).strip()[-2000:]}",
            hint="the reason is above; ./seamline doctor checks Java",
        )


def broker_command(layout: Layout, java_home: str) -> tuple[str, ...]:
    return _java(layout, java_home, layout.kafka, "kafka.Kafka", layout.kafka / "server.properties")


def broker_is_ready(layout: Layout) -> bool:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{layout.settings.ports.kafka}", "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def write_connect_files(layout: Layout) -> None:
    """The worker's settings. Passwords are in a file of their own, which only this worker may name."""
    port = layout.settings.ports.connect
    own = {
        **CONNECT,
        "bootstrap.servers": f"127.0.0.1:{layout.settings.ports.kafka}",
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "rest.advertised.port": str(port),
        "plugin.path": str(layout.connect_plugins),
        "config.providers.file.param.allowed.paths": str(layout.connect),
    }
    layout.connect.mkdir(parents=True, exist_ok=True)
    _write_properties(layout.connect / "worker.properties", own)
    (layout.connect / "log4j2.yaml").write_text(LOG4J2, encoding="utf-8")


def connect_command(layout: Layout, java_home: str) -> tuple[str, ...]:
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return _java(layout, java_home, layout.connect, main, layout.connect / "worker.properties")


def connect_is_ready(layout: Layout) -> bool:
    """`/health` says 503 while the worker reads its topics, and 200 only when it can take connectors."""
    return http_answers(f"http://127.0.0.1:{layout.settings.ports.connect}/health") is not None


def http_answers(url: str) -> Any:
    """The JSON that a local server gives with status 200, else None."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return json.loads(answer.read())
    except (urllib.error.URLError, OSError, ValueError):
        return None


def _java(layout: Layout, java_home: str, folder: Path, main: str, settings_file: Path) -> tuple[str, ...]:
    return (
        f"{java_home}/bin/java",
        *HEAP,
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.yaml'}",
        "-cp",
        _class_path(layout),
        main,
        str(settings_file),
    )


def _class_path(layout: Layout) -> str:
    return f"{layout.jars / 'kafka'}/*"


def _write_properties(path: Path, values: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")
