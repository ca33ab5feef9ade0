"""What every kind that resumes loads says of them."""

from collections.abc import Mapping

from seamline.domain.errors import TransientError
from seamline.domain.load_splits import Split, SplitRead


class LoadTakenOver(TransientError):
    """Another attempt of the run goes on with what this one has staged: this one changes nothing of it any more."""

    def __init__(self, *, table: str = "") -> None:
        super().__init__(
            "another attempt of this run has taken over what is staged",
            hint="that one goes on with the splits that are done; nothing has to be cleaned",
            table=table,
        )


def staged_meanwhile(table: str, split: Split) -> TransientError:
    return TransientError(
        f"split {split.number + 1} of {split.of} of {table} was staged by an earlier attempt meanwhile",
        hint="the next attempt goes on with it; nothing has to be cleaned",
        table=table,
    )


def require_still_at(since: SplitRead, table: str, *, moved: int) -> None:
    """TransientError where no split of the table was recorded at `since` any more: what brings them forward stands in
    the same transaction, and would happen to them a second time. `moved`: how many were."""
    if not moved:
        raise TransientError(
            f"splits of {table} that were read at {since.position} were brought forward by another attempt meanwhile",
            hint="the next attempt goes on with them; nothing has to be cleaned",
            table=table,
        )


def of_one_attempt(labels: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Of these staged tables, with what their names say, those that an attempt may go on with: the newest and all that
    are called after the same attempt. Others could not be dropped in time."""
    if not labels:
        return set()
    newest = max(labels.values(), key=lambda label: label["made"])
    return {name for name, label in labels.items() if label["attempt"] == newest["attempt"]}
