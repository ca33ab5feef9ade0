"""What a run leaves out unless it is given `--every-behaviour`: a sentence that another case of the same run proves
through the same code, once more on another kind of server. The hooks are those of `tests/conftest.py`."""

import pytest

ONCE_MORE = pytest.mark.once_more
_OPTION = "--every-behaviour"


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "also what another case of the same run proves through the same code"
    parser.addoption(_OPTION, action="store_true", help=what)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{ONCE_MORE.name}: runs only by {_OPTION}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, [one for one in items if one.get_closest_marker(ONCE_MORE.name)])


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    """Unless every behaviour is asked for, these items do not run; pytest counts them as deselected."""
    if left_out and not config.getoption(_OPTION):
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [one for one in items if one not in gone]
