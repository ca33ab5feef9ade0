"""requirements.txt is the exported lock of requirements.in, and says so."""

import re
from importlib.metadata import requires, version
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement

from seamline.stack import python_lock

EACH = pytest.mark.parametrize("name", [python_lock.MAIN, python_lock.HUDI, python_lock.DOCS])


@EACH
def test_the_lock_was_made_from_this_very_list(checkout: Path, name: str) -> None:
    made_from = python_lock.locked_hash(checkout, name)
    assert made_from == python_lock.wish_hash(checkout, name), "./seamline lock makes it again"


@EACH
def test_every_wish_is_met_by_its_pin(checkout: Path, name: str) -> None:
    pins = python_lock.pins(checkout, name)
    lines = (checkout / f"{name}.in").read_text().splitlines()
    wishes = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert wishes
    for wish in wishes:
        locked = pins.get(python_lock.normalised(wish.name), set())
        assert locked, f"{wish.name} is not in the lock"
        assert all(wish.specifier.contains(one, prereleases=True) for one in locked), f"{wish} is locked as {locked}"


def test_every_need_of_a_locked_package_is_met_by_the_lock(checkout: Path) -> None:
    pins = python_lock.pins(checkout)
    here = python_lock.wanted_here(checkout)
    assert len(here) > 100
    for name in sorted(here):
        assert version(name) in pins[name], f"{name} is installed as {version(name)}, locked as {pins[name]}"
        for need in map(Requirement, requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                locked = pins.get(python_lock.normalised(need.name), set())
                assert any(need.specifier.contains(one, prereleases=True) for one in locked), f"{name} needs {need}"


@EACH
def test_the_lock_shows_how_to_refresh_it_and_names_no_host(checkout: Path, name: str) -> None:
    text = (checkout / f"{name}.txt").read_text()
    assert "exported lock" in text.splitlines()[0]
    assert "./seamline lock" in text.splitlines()[1]
    assert not re.search(r"https?://|--index|--find-links|file:", text)


def test_both_spark_wheels_are_of_one_version() -> None:
    # They own the same folder: with two versions it is chance which file one gets.
    assert version("pyspark") == version("pyspark-client") == pyspark.__version__
