"""The version that a Connect worker shows of the project's own classes is that of their sources."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from seamline.sources.kafka.connector import TopicsConnector
from seamline.sources.mariadb.connector import MariaDbConnector
from seamline.sources.mysql.connector import MySqlConnector
from seamline.sources.postgres.connector import PostgresConnector

# Of connect/ but connect/kafka, which extends nothing of Debezium's. Whoever changes a class raises `OWN` and the
# `tested_versions`, then writes the new one here.
SOURCES = "e554b37163bcc95d983f426f774fa7fa36626fe8f020991a4c0653a9b8ae836f"
# Of connect/kafka, whose version is its own.
SOURCES_ALONE = "eeaf2b5a7f6df3e884dd093fddd12fbd9866af197e3b20e83c9ffdb56152c68c"


def test_who_changes_the_classes_raises_their_version(checkout: Path) -> None:
    """A worker that was started with older classes is known by it, and refused."""
    folder = checkout / "connect"
    assert sources_of(path for path in folder.iterdir() if path.name != "kafka") == SOURCES
    connectors = (MariaDbConnector, MySqlConnector, PostgresConnector)
    tested = [version for connector in connectors for version in connector.tested_versions]
    (version,) = {version.partition(".Final-")[2] for version in tested}
    source = (checkout / "connect/shared/src/seamline/connect/WholeTransactions.java").read_text(encoding="utf-8")
    assert f'OWN = "{version}"' in source


def test_who_changes_the_connector_of_topics_raises_its_version(checkout: Path) -> None:
    folder = checkout / "connect" / "kafka"
    assert sources_of([folder]) == SOURCES_ALONE
    (version,) = TopicsConnector.tested_versions
    source = (folder / "src/seamline/connect/TopicsConnector.java").read_text(encoding="utf-8")
    assert f'OWN = "{version}"' in source


def sources_of(folders: Iterable[Path]) -> str:
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
