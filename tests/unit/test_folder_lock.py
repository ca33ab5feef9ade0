"""Two commands that would undo each other are not at work at once on one data folder."""

from pathlib import Path
from threading import Thread

import pytest

from seamline import settings
from seamline.cli import demo
from seamline.cli.main import main
from seamline.domain.errors import TransientError
from seamline.stack.folder_lock import lock_after_waiting, lock_or_refuse
from seamline.stack.layout import Layout
from tests.waiting import wait_until


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    return Layout(settings.load())


def test_a_lock_is_held_by_one_and_is_free_when_it_ends(layout: Layout) -> None:
    with lock_or_refuse(layout, "stack", what="`seamline up`"):
        with (
            pytest.raises(TransientError, match="another `seamline up` is at work"),
            lock_or_refuse(layout, "stack", what="`seamline up`"),
        ):
            pytest.fail("two held one lock")
        with lock_or_refuse(layout, "demo", what="`seamline demo`"):
            pass
    with lock_or_refuse(layout, "stack", what="`seamline up`"):
        pass


def test_a_second_demo_is_refused_before_it_touches_anything(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a reader of the README: a second one took the sync from the first in the middle of its backfill."""
    monkeypatch.setattr(demo.boot, "up", lambda *_: pytest.fail("the stack was touched"))
    with lock_or_refuse(layout, "demo", what="`seamline demo`"):
        assert main(["demo"]) == TransientError.exit_code
    said = capsys.readouterr().err
    assert "another `seamline demo` is at work" in said and "wait for it" in said


def test_who_comes_second_to_a_lock_waits_says_so_and_has_it_then(tmp_path: Path) -> None:
    said: list[str] = []
    with lock_after_waiting(tmp_path / "env", "prepare", on_wait=lambda: pytest.fail("nobody has it")):
        second = Thread(target=_take_lock, args=(tmp_path / "env", said))
        second.start()
        wait_until(lambda: said == ["waits"], timeout_s=10, what="the second to find it taken")
    second.join(timeout=10)
    assert said == ["waits", "has it"]


def _take_lock(folder: Path, said: list[str]) -> None:
    with lock_after_waiting(folder, "prepare", on_wait=lambda: said.append("waits")):
        said.append("has it")
