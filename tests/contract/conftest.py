"""Destinations of the behaviour suite: in memory, and databases of its own on servers of the test session."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from tests import hdfs_server, hive_metastore
from tests.conftest import RunningStack
from tests.contract import file_places
from tests.contract.change_files_world import LONG_OVER_FILES
from tests.contract.file_places import Place, Places, Reached
from tests.contract.kafka_world import TRIED_OVER_TOPICS
from tests.contract.lake_worlds import SINGLE
from tests.contract.single_world import OVER_A_METASTORE
from tests.contract.spark_session import frames, spark
from tests.hdfs_server import Hdfs
from tests.integration.conftest import mysql_root
from tests.integration.databases import PUBLISHER, mariadb_destination, mysql_destination, postgres_database
from tests.once_more import leave_out

__all__ = ["frames", "mysql_root", "spark"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--histories", type=int, default=4, help="histories that both writers of a lake write")
    parser.addoption("--seeds", type=int, default=3, help="seeds of which every kind of break is planted")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over topics and a metastore one behaviour of each sort, over files no long history, unless all are asked for."""
    leave_out(config, items, [one for one in items if _is_slow(one)])


def _is_slow(item: pytest.Item) -> bool:
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if given.get("make_world") == "change_files":
        return given["behaviour"].__name__ in LONG_OVER_FILES
    if given.get("make_world") == SINGLE.name:
        return given["behaviour"].__name__ not in OVER_A_METASTORE
    tried = TRIED_OVER_TOPICS.get(str(given.get("make_world")))
    return tried is not None and given["behaviour"].__name__ not in tried


@pytest.fixture(scope="session")
def sink_database(stack: object) -> Iterator[Connection]:
    with postgres_database("stream_contract") as connection:
        yield connection


@pytest.fixture(scope="session")
def one_login_database(stack: object) -> Iterator[Connection]:
    """A destination whose publisher is its writer too."""
    with postgres_database("stream_contract_one_login", writer=PUBLISHER) as connection:
        yield connection


@pytest.fixture(scope="session")
def mariadb_publisher(stack: object) -> Iterator[Connection]:
    with mariadb_destination("settlement") as connection:
        yield connection


@pytest.fixture(scope="session")
def mysql_publisher(mysql_root: Connection) -> Iterator[Connection]:
    with mysql_destination(mysql_root, "settlement") as connection:
        yield connection


@dataclass(frozen=True)
class Hive:
    """A metastore, and the database of its own tables and of the cuts' rows."""

    metastore: Connection
    database: Connection


@pytest.fixture(scope="session")
def hive(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    folder = tmp_path_factory.mktemp("hive")
    with (
        postgres_database("hive_contract") as database,
        hive_metastore.running(stack.settings, database, folder) as metastore,
    ):
        yield Hive(metastore, database)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with ExitStack() as opened:
        yield Places(opened, tmp_path_factory.mktemp("local"))


@pytest.fixture
def reached(places: Places, monkeypatch: pytest.MonkeyPatch) -> Reached:
    """A place by the name of its store, whose connection is known here and in processes that are begun."""

    def of(store: str) -> Place:
        place = places.of(store)
        if place.connection:
            name = f"SEAMLINE_CONNECTION_{place.connection.upper()}"
            monkeypatch.setenv(name, places.connections[place.connection])
        return place

    return of


@pytest.fixture(scope="session")
def hdfs(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs_server.running(stack.settings, tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture
def hdfs_place(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """A folder of a test's own."""
    monkeypatch.setenv("SEAMLINE_CONNECTION_FILES_ON_HDFS", hdfs.connection)
    return file_places.hdfs_place(hdfs, f"/{tmp_path.name}", "files_on_hdfs")
