"""The environment of Hudi's own Spark."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.stack import hudi_environment
from seamline.stack.jars import HUDI, of_the_stack, read_lock
from seamline.stack.layout import Layout


def test_a_machine_without_the_environment_says_how_to_make_it(tmp_path: Path) -> None:
    layout = Layout(replace(settings.load(), home=tmp_path))
    with pytest.raises(ConfigError, match="missing or old") as refused:
        hudi_environment.find(layout)
    assert "./seamline setup --with hudi" in refused.value.hint


def test_an_ordinary_setup_fetches_nothing_of_it_and_leaves_its_files_alone(tmp_path: Path, checkout: Path) -> None:
    layout = Layout(replace(settings.load(), home=tmp_path))
    assert not layout.hudi.is_relative_to(layout.jars), "a setup removes files there that are not in its lock"
    locked = [file for file in read_lock(checkout / "jars" / "jars.lock") if file.configuration == HUDI]
    assert of_the_stack(locked) == ()
    assert len(locked) == 1
