"""The version that a Connect worker tells of the project's own classes is that of their sources."""

import hashlib
from pathlib import Path

from seamline.adapters.connect.connector_config import TESTED_VERSIONS
from seamline.adapters.connect.connector_postgres import POSTGRES_CONNECTOR

# Of connect/src. Whoever changes a class raises `OWN` and TESTED_VERSIONS, then writes the new one here.
SOURCES = "157ffd475d9fbb3da8292ac588112483857e5ad21dbc18c2e72c318fbe2f9fd6"


def test_who_changes_the_classes_raises_their_version(checkout: Path) -> None:
    """A worker that was started with older classes is known by it, and refused."""
    found = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((checkout / "connect/src").rglob("*.java"))))
    assert found.hexdigest() == SOURCES
    version = TESTED_VERSIONS[POSTGRES_CONNECTOR][0].partition(".Final-")[2]
    connector = (checkout / "connect/src/seamline/connect/PostgresConnector.java").read_text(encoding="utf-8")
    assert f'OWN = "{version}"' in connector
