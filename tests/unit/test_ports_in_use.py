"""Who has a port that the stack needs: reported at once, but a process that is just ending is waited for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError
from seamline.settings import load
from seamline.stack import leftovers, ports_in_use
from seamline.stack.components import COMPONENTS
from seamline.stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Layout]:
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    monkeypatch.setattr(leftovers, "processes", lambda layout: ())
    yield Layout(load())


def test_a_port_of_a_process_that_is_ending_is_waited_for(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    port = layout.settings.ports.kafka
    looks = iter([{port: 0}, {port: 0}])
    monkeypatch.setattr(ports_in_use, "_listeners", lambda: next(looks, {}))
    ports_in_use.require_free(COMPONENTS, layout)
    assert next(looks, None) is None, "it was looked at again"


def test_a_port_of_a_process_that_lives_is_refused_with_its_name(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def listeners() -> dict[int, int]:
        nonlocal looks
        looks += 1
        return {layout.settings.ports.kafka: os.getpid()}

    monkeypatch.setattr(ports_in_use, "_listeners", listeners)
    with pytest.raises(ConfigError, match=rf"kafka\) is taken by pid {os.getpid()}: .+"):
        ports_in_use.require_free(COMPONENTS, layout)
    assert looks == 1


def test_a_port_that_stays_nameless_is_refused_in_the_end(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_in_use, "_DYING_S", 0.1)
    monkeypatch.setattr(ports_in_use, "_listeners", lambda: {layout.settings.ports.kafka: 0})
    with pytest.raises(ConfigError, match="a process of another user"):
        ports_in_use.require_free(COMPONENTS, layout)
