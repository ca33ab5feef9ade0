"""What a script answers where it writes nothing, as errors."""

from collections.abc import Sequence
from typing import Any

from seamline.domain.errors import (
    ConfigError,
    Diverged,
    GateFailed,
    InvariantViolated,
    Refused,
    SeamlineError,
    TransientError,
)


def refusal(status: bytes, answer: Sequence[Any], *, sync: str, rows_max: int) -> SeamlineError:
    what = [one.decode() if isinstance(one, bytes) else str(one) for one in answer]
    made = _REFUSALS.get(status.decode())
    if made is None:
        return InvariantViolated(f"a script answered {status.decode()} {' '.join(what)}", sync=sync)
    error, said, cure = made
    named = dict(zip(("first", "second"), (*what, "", ""), strict=False), rows_max=rows_max)
    return error(said.format(**named), hint=cure.format(**named), sync=sync)


_REFUSALS: dict[str, tuple[type[SeamlineError], str, str]] = {
    "TOO_MANY": (
        Refused,
        "a script would write {first} rows or more at once, and this destination's `rows_max` is {rows_max}: Redis"
        " serves nobody else meanwhile",
        "raise `rows_max` of the destination if its readers can wait that long, or leave the table out",
    ),
    "LOST": (
        Diverged,
        "a change of {first} leaves values out of a row that is not there",
        "load the table again: the destination does not hold what the log builds on",
    ),
    "CHUNK": (
        TransientError,
        "a part of a large transaction is gone from the server: {first}",
        "the transaction is applied again from the log",
    ),
    "TYPE": (
        Refused,
        "the key {first} was written by somebody else: it is of another type",
        "remove it, or choose another prefix",
    ),
    "NOPERM": (
        ConfigError,
        "the login has no right to {first}",
        "`seamline grants` prints the ACL that it needs",
    ),
    "GONE": (Refused, "the staged table of {first} is gone", "load it again"),
    "LACKS": (
        GateFailed,
        "the staged table of {first} now holds {second} rows, which are not those that were loaded",
        "nothing was published. Clear the task that staged it",
    ),
    "GAPS": (
        GateFailed,
        "of table {first} {second} rows are gone that its sorted set names: they were removed by somebody else, or have"
        " expired",
        "nothing was changed. Compare its live table and repair it, or load it again (an incremental snapshot: start it"
        " anew); then try once more",
    ),
    "OTHERS": (
        Refused,
        "table {first} is there and was not made by this sync (it is of: {second})",
        "choose another prefix for this destination, or take the table out of the other sync",
    ),
}
