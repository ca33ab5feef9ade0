"""Which components are started, and what is said of a choice that cannot work."""

import time
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.stack import boot, components
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress
from seamline.stack.supervisor import ProgramState


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


def test_down_says_what_it_stops_and_meanwhile_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a newcomer: it was silent for 49 s."""
    said = ""

    def stop(_: Layout, names: list[str]) -> None:
        nonlocal said
        deadline = time.monotonic() + 5
        while "connect" in names and "waiting" not in said and time.monotonic() < deadline:
            said += capsys.readouterr().out

    alive = {"connect": ProgramState("connect", "STOPPING", pid=7, since=0, said="")}
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    monkeypatch.setattr(boot, "_STILL_WAITING_S", 0.05)
    for name, answer in (("is_running", True), ("states", alive), ("shut_down", None)):
        monkeypatch.setattr(boot.keeper, name, lambda _, answer=answer: answer)
    monkeypatch.setattr(boot.keeper, "stop_programs", stop)
    assert boot.down(Layout(settings.load()), Progress()) == 0
    assert "stopping connect\n" in said
    assert "waiting for connect to stop\n" in said
