"""Changes of declarations that people propose, accept and withdraw, once for the forms of the page and for REST.

Each act is Refused, with what to do, where it is not possible; nothing is changed then.
"""

from pathlib import Path

from seamline import settings
from seamline.domain.declared_change import Asked, Change
from seamline.domain.errors import Refused
from seamline.domain.person import one_line
from seamline.plan.compile import compile_plan
from seamline.spec import changed
from seamline.spec.faults import DeclarationsInvalid
from seamline_airflow import parts
from seamline_airflow.page.acts import Actor


def propose(sync: str, change: Change, value: str, *, reason: str, by: Actor) -> Asked:
    """What waits for another person now. A repeat of one that waits changes nothing."""
    text = changed.text_of(file_of(sync))
    made = changed.changed(text, change, one_line(value))
    _require_right(sync, change, one_line(value), made)
    diff = changed.difference(text, made, f"syncs/{sync}.yaml")
    asked = Asked(sync, change, one_line(value), one_line(reason), changed.hash_of(text), changed.hash_of(made), diff)
    with parts.declared_changes() as store:
        store.propose(asked, who=by.who, origin=by.origin)
    return asked


def accept(sync: str, number: int, *, by: Actor) -> None:
    """Write the file. `number`: of the proposal's entry in the log of acts."""
    with parts.declared_changes() as store:
        for one in store.of_sync(sync):
            if one.number == number:
                # Before the act: while its transaction lasts, all others wait.
                _require_right(sync, one.asked.change, one.asked.value, _made(one.asked))
        store.accept(sync, number, who=by.who, put=_put, origin=by.origin)


def withdraw(sync: str, number: int, *, by: Actor) -> None:
    with parts.declared_changes() as store:
        store.withdraw(sync, number, who=by.who, origin=by.origin)


def file_of(sync: str) -> Path:
    return changed.sync_file(settings.load().declarations, sync)


def _put(asked: Asked) -> None:
    changed.put(file_of(asked.sync), _made(asked))


def _made(asked: Asked) -> str:
    """The text with the change, also where it stands there already. Refused: the file is another one than the change
    was proposed for."""
    text = changed.text_of(file_of(asked.sync))
    if changed.hash_of(text) == asked.after:
        return text
    if changed.hash_of(text) != asked.before:
        raise Refused("the file has another text now", hint="withdraw this change, and propose it for the new text")
    return changed.changed(text, asked.change, asked.value)


def _require_right(sync: str, change: Change, value: str, text: str) -> None:
    """Refused with what is wrong: the checks of `./seamline validate`, and the source is asked whether it has the
    table."""
    try:
        plan = compile_plan(changed.checked(settings.load().declarations, sync, text), sync)
    except DeclarationsInvalid as error:
        first = error.faults[0]
        raise Refused(f"line {first.line} would be wrong: {first.cause}", hint=first.cure) from error
    if change is not Change.TABLE:
        return
    with parts.source(plan) as source:
        problems = source.survey([value]).problems
    if problems:
        raise Refused("; ".join(one.what for one in problems), hint=problems[0].cure)
