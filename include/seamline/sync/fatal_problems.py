"""What a preflight has found, judged: the fatal ones end the step."""

from collections.abc import Sequence

from seamline.domain.errors import Refused
from seamline.ports import Problem


def refuse_fatal(problems: Sequence[Problem], *, sync: str = "") -> None:
    fatal = [problem for problem in problems if problem.is_fatal]
    if fatal:
        raise Refused(
            "; ".join(f"{one.table}: {one.what}" if one.table else one.what for one in fatal),
            hint="; ".join(dict.fromkeys(one.cure for one in fatal)),
            sync=sync,
        )
