"""Settings: where one stack lives, and that two stacks never meet."""

from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import ConfigError


def test_without_any_variable_everything_lies_in_the_checkout(checkout: Path) -> None:
    known = settings.load({})
    assert known.root == checkout
    assert known.data == checkout / ".seamline" / "data"
    assert known.connections == known.data / "connections.json"
    assert known.declarations == checkout / "include"
    assert known.ports.base == 21000


def test_another_data_folder_takes_its_connections_along(tmp_path: Path) -> None:
    known = settings.load({"SEAMLINE_DATA": str(tmp_path)})
    assert known.connections == tmp_path / "connections.json"
    assert known.env == settings.load({}).env, "packages and jars are shared by the stacks of one checkout"


def test_two_port_bases_a_hundred_apart_share_no_port() -> None:
    def ports(base: str) -> set[int]:
        one = settings.load({"SEAMLINE_PORT_BASE": base}).ports
        return {one.postgres, one.mariadb, one.kafka, one.kafka_controller, one.connect, one.airflow}

    assert len(ports("22000")) == 6
    assert not ports("22000") & ports("22100")


@pytest.mark.parametrize("given", ["abc", "80", "70000", "-1", "22000.5"])
def test_a_port_base_that_is_no_port_is_refused_by_name(given: str) -> None:
    with pytest.raises(ConfigError, match="SEAMLINE_PORT_BASE must be a number"):
        settings.load({"SEAMLINE_PORT_BASE": given})


def test_a_place_of_the_servers_that_is_none_is_refused_by_name() -> None:
    assert settings.load({}).are_servers_here
    assert not settings.load({"SEAMLINE_SERVERS": "elsewhere"}).are_servers_here
    with pytest.raises(ConfigError, match="`here` or `elsewhere`, got 'there'"):
        settings.load({"SEAMLINE_SERVERS": "there"})


def test_settings_survive_the_way_into_another_process(tmp_path: Path) -> None:
    known = settings.load({"SEAMLINE_DATA": str(tmp_path), "SEAMLINE_PORT_BASE": "23000"})
    assert settings.load(settings.as_environment(known)) == known


def test_a_connection_from_the_environment_is_not_printed() -> None:
    known = settings.load({"SEAMLINE_CONNECTION_WAREHOUSE": "postgres://me:hunter2@db:5432/warehouse"})
    assert known.connection_uris["warehouse"].startswith("postgres://")
    assert "hunter2" not in repr(known)
