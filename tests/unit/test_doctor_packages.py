"""The doctor's look at the packages."""

from importlib.metadata import version
from pathlib import Path

from seamline.stack import python_lock
from seamline.stack.checks import wrong_packages


def test_the_packages_of_this_environment_are_those_of_the_lock(checkout: Path) -> None:
    wanted = python_lock.wanted_here(checkout)
    assert len(wanted) > 100
    assert list(wrong_packages(python_lock.pins(checkout), wanted=wanted)) == []


def test_a_package_that_is_missing_and_one_of_another_version_are_named() -> None:
    pins = {"pyyaml": {"0.1"}, "no-such-package": {"1.0"}, "of-another-platform": {"2.0"}}
    found = list(wrong_packages(pins, wanted={"pyyaml", "no-such-package"}))
    assert found == [f"pyyaml {version('pyyaml')} instead of 0.1", "no-such-package is missing"]
