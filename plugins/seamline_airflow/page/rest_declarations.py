"""What a sync's file says and people agree on, by REST: changes of it, and the tolerances that stand in it."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from seamline import settings
from seamline.domain.audit import FROM_REST
from seamline.domain.declared_change import VALUE_MAX, Change, Proposed
from seamline.domain.sign_off import REASON_MAX
from seamline.spec.tolerances import declared_tolerances
from seamline_airflow import parts
from seamline_airflow.page import acts, declared_acts
from seamline_airflow.page import rest_answers as answers
from seamline_airflow.page.rest_rights import REFUSED, Signer, SyncName, Worker

api = APIRouter(responses=REFUSED)

_NO_NUL = r"^[^\x00]*$"
Number = Annotated[int, Path(ge=1, le=2**62)]
Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


class ChangeProposed(BaseModel):
    """`value`: the table to take in, or a time of day as 01:15."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    change: Change
    value: Annotated[str, Field(max_length=VALUE_MAX, pattern=_NO_NUL)]
    reason: Annotated[str, Field(max_length=REASON_MAX, pattern=_NO_NUL)]


@api.get("/syncs/{sync}/declaration/changes")
def get_changes(sync: SyncName) -> list[answers.ChangeOfDeclaration]:
    """All that were ever proposed, the newest first."""
    with parts.declared_changes() as store:
        return [_answer(one) for one in store.of_sync(sync)]


@api.post("/syncs/{sync}/declaration/changes", status_code=201)
def propose_change(sync: SyncName, user: Worker, body: ChangeProposed) -> answers.ChangeOfDeclaration:
    """It changes nothing before another person has accepted it."""
    by = acts.actor(user, FROM_REST)
    asked = declared_acts.propose(sync, body.change, body.value, reason=body.reason, by=by)
    with parts.declared_changes() as store:
        found = store.of_sync(sync)
    same = (asked.change, asked.value, asked.before)
    return next(
        _answer(one) for one in found if one.waits and (one.asked.change, one.asked.value, one.asked.before) == same
    )


@api.post("/syncs/{sync}/declaration/changes/{number}/accept")
def accept_change(sync: SyncName, user: Signer, number: Number) -> answers.ChangeOfDeclaration:
    """By another person than the one who has proposed it: the file then says so."""
    declared_acts.accept(sync, number, by=acts.actor(user, FROM_REST))
    return _change(sync, number)


@api.post("/syncs/{sync}/declaration/changes/{number}/withdraw")
def withdraw_change(sync: SyncName, user: Worker, number: Number) -> answers.ChangeOfDeclaration:
    declared_acts.withdraw(sync, number, by=acts.actor(user, FROM_REST))
    return _change(sync, number)


def _change(sync: str, number: int) -> answers.ChangeOfDeclaration:
    return next(one for one in get_changes(sync) if one.number == number)


def _answer(one: Proposed) -> answers.ChangeOfDeclaration:
    said: dict[str, Any] = {name: getattr(one.asked, name) for name in ("value", "reason", "diff")}
    return answers.ChangeOfDeclaration(
        number=one.number,
        change=one.asked.change.value,
        who=one.who,
        at=one.at,
        step=one.step.value,
        ended_by=one.ended_by,
        ended_at=one.ended_at,
        **said,
    )


@api.get("/syncs/{sync}/declaration/tolerances")
def get_declared_tolerances(sync: SyncName) -> list[answers.DeclaredTolerance]:
    """Those of the sync's file that wait for the approver whom they name."""
    with parts.tolerances() as store:
        standing = {one.declared for one in store.of_sync(sync) if one.declared and not one.ended_by}
    found = declared_tolerances(settings.load().declarations, sync)
    return [
        answers.DeclaredTolerance(
            hash=one.hash, asked_by=one.asked_by, approver=one.approver, **_without_sync(asdict(one.asked))
        )
        for one in found
        if one.hash not in standing
    ]


@api.post("/syncs/{sync}/declaration/tolerances/{hash}/approve")
def approve_declared_tolerance(sync: SyncName, user: Signer, hash: Hash) -> answers.Tolerated:
    """By the approver whom it names alone. `hash`: of what the person has seen; another text there refuses it."""
    return answers.Tolerated(breaks=acts.approve_declared_tolerance(sync, hash, by=acts.actor(user, FROM_REST)))


def _without_sync(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "sync"}
