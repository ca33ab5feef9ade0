"""What a run leaves out unless it is given `--every-behaviour`: a sentence that another case of the same run proves
through the same code, once more on another kind of server."""

import pytest

ONCE_MORE = pytest.mark.once_more
EVERY_BEHAVIOUR = "--every-behaviour"


def leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    """Unless every behaviour is asked for, these items do not run; pytest counts them as deselected."""
    if left_out and not config.getoption(EVERY_BEHAVIOUR):
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [one for one in items if one not in gone]
