"""Which components are started, and what is said of a choice that cannot work."""

import pytest

from seamline.domain.errors import ConfigError
from seamline.stack import components


def names(**chosen: tuple[str, ...]) -> list[str]:
    return [part.name for part in components.choose(**chosen)]


def test_a_component_brings_what_it_needs() -> None:
    assert names(only=("connect",)) == ["kafka", "connect"]


def test_leaving_one_out_leaves_the_others() -> None:
    assert names(without=("airflow", "stream_host")) == ["postgres", "mariadb", "kafka", "connect"]


def test_a_component_without_what_it_needs_is_refused_with_the_cure() -> None:
    with pytest.raises(ConfigError, match="connect needs kafka") as caught:
        components.choose(only=("connect",), without=("kafka",))
    assert "--without kafka,connect" in str(caught.value)


def test_an_unknown_component_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no component `conect`"):
        components.choose(only=("conect",))


def test_everything_needed_stands_before_what_needs_it() -> None:
    seen: set[str] = set()
    for part in components.COMPONENTS:
        assert seen.issuperset(part.needs), part.name
        seen.add(part.name)
