"""The version that a Connect worker shows of the project's own classes is that of their sources."""

import hashlib
from pathlib import Path

from seamline.sources.mariadb.connector import MariaDbConnector
from seamline.sources.mysql.connector import MySqlConnector
from seamline.sources.postgres.connector import PostgresConnector

# Of connect/. Whoever changes a class raises `OWN` and the `tested_versions`, then writes the new one here.
SOURCES = "e554b37163bcc95d983f426f774fa7fa36626fe8f020991a4c0653a9b8ae836f"


def test_who_changes_the_classes_raises_their_version(checkout: Path) -> None:
    """A worker that was started with older classes is known by it, and refused."""
    files = sorted(path for path in (checkout / "connect").rglob("*") if path.is_file())
    found = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    assert found.hexdigest() == SOURCES
    connectors = (MariaDbConnector, MySqlConnector, PostgresConnector)
    tested = [version for connector in connectors for version in connector.tested_versions]
    (version,) = {version.partition(".Final-")[2] for version in tested}
    source = (checkout / "connect/shared/src/seamline/connect/WholeTransactions.java").read_text(encoding="utf-8")
    assert f'OWN = "{version}"' in source
