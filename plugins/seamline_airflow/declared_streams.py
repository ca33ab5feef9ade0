"""Ends streams that are declared no more, and lets those go on that are declared again."""

from typing import Any

from seamline import settings
from seamline.domain.declared import Step, steps
from seamline.spec.declared import declared_now
from seamline_airflow import parts

_SAID = {
    Step.NOTE: "it is not declared any more: it ends if that stays so",
    Step.END: "it ends, for it is declared no more; it keeps its position",
    Step.GO_ON: "it is declared again: it goes on from its position",
}


def settle(log: Any) -> None:
    """By one look at the folder of declarations."""
    now = declared_now(settings.load().declarations)
    if now.why:
        log.warning("nobody knows what is declared, so no stream is ended for that: %s", now.why)
    with parts.director() as director:
        for stream, step in steps(director.marks(), now):
            director.take(stream, step)
            log.info("%s: %s", stream, _SAID[step])
