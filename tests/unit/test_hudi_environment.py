"""The environment of Hudi's own Spark."""

from dataclasses import replace
from pathlib import Path

from seamline import settings
from seamline.stack.jars import HUDI, of_the_stack, read_lock
from seamline.stack.layout import Layout


def test_an_ordinary_setup_fetches_nothing_of_it_and_leaves_its_files_alone(tmp_path: Path, checkout: Path) -> None:
    layout = Layout(replace(settings.load(), home=tmp_path))
    assert not layout.hudi.is_relative_to(layout.jars), "a setup removes files there that are not in its lock"
    locked = [file for file in read_lock(checkout / "jars" / "jars.lock") if file.configuration == HUDI]
    assert of_the_stack(locked) == ()
    assert len(locked) == 1
