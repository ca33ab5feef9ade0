"""PlatformDeclaredChanges: changes of declarations that people have proposed. The log of acts is all that is stored."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from seamline.domain.audit import FROM_PAGE, Act, Entry, Kind, Subject
from seamline.domain.declared_change import ABOUT, Asked, Change, Proposed, Step, require_second, require_waiting
from seamline.domain.errors import Refused
from seamline.platform import audit
from seamline.platform.audit import entries
from seamline.platform.database import Database, Session

_OF_SYNC = "kind = %(kind)s and run_id = '' and sync = %(sync)s and business_date is null"


class PlatformDeclaredChanges:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def of_sync(self, sync: str) -> tuple[Proposed, ...]:
        """All that were ever proposed, the newest first."""
        found = self._database.transact(lambda session: _read(session, sync))
        return tuple(sorted(found.values(), key=lambda one: -one.number))

    def propose(self, asked: Asked, *, who: str, origin: str = FROM_PAGE) -> None:
        """Refused: without a reason. One that waits already is not proposed a second time."""
        if not asked.reason:
            raise Refused("a change is proposed with a reason", hint="write it into the form")

        def work(session: Session) -> None:
            audit.lock(session)
            same = (one.asked for one in _read(session, asked.sync).values() if one.waits)
            if any((one.change, one.value, one.before) == (asked.change, asked.value, asked.before) for one in same):
                return
            _enter(session, asked.sync, Step.PROPOSED, _document(asked), who=who, origin=origin)

        self._database.transact(work)

    def accept(
        self, sync: str, number: int, *, who: str, put: Callable[[Asked], None], origin: str = FROM_PAGE
    ) -> None:
        """`put` writes the file, and is safe to repeat; where it raises nothing is entered. Refused: who has proposed
        it accepts it, or it does not wait."""

        def work(session: Session) -> None:
            audit.lock(session)
            found = _one(session, sync, number)
            require_second(found, who)
            _enter(session, sync, Step.ACCEPTED, {"number": number}, who=who, origin=origin)
            put(found.asked)

        self._database.transact(work)

    def withdraw(self, sync: str, number: int, *, who: str, origin: str = FROM_PAGE) -> None:
        """By whoever works on the sync. Refused: it does not wait."""

        def work(session: Session) -> None:
            audit.lock(session)
            require_waiting(_one(session, sync, number))
            _enter(session, sync, Step.WITHDRAWN, {"number": number}, who=who, origin=origin)

        self._database.transact(work)


def _enter(session: Session, sync: str, step: Step, said: dict[str, Any], *, who: str, origin: str) -> None:
    document = {"about": ABOUT, "step": step.value, **said}
    audit.append(session, Act(Kind.COMMENTED, Subject(sync), document, who, origin))


def _document(asked: Asked) -> dict[str, Any]:
    return {
        "after": asked.after,
        "before": asked.before,
        "change": asked.change.value,
        "diff": asked.diff,
        "reason": asked.reason,
        "value": asked.value,
    }


def _one(session: Session, sync: str, number: int) -> Proposed:
    found = _read(session, sync).get(number)
    if found is None:
        raise Refused(f"no change {number} was proposed for {sync}", hint="load the page again")
    return found


def _read(session: Session, sync: str) -> dict[int, Proposed]:
    found: dict[int, Proposed] = {}
    for entry in entries(session, _OF_SYNC, {"kind": Kind.COMMENTED.value, "sync": sync}):
        said = json.loads(entry.document)
        if said.get("about") != ABOUT:
            continue
        if said["step"] == Step.PROPOSED:
            found[entry.number] = _proposed(entry, said)
        elif said["number"] in found:
            found[said["number"]] = replace(
                found[said["number"]], step=Step(said["step"]), ended_by=entry.who, ended_at=entry.at
            )
    return found


def _proposed(entry: Entry, said: dict[str, Any]) -> Proposed:
    asked = Asked(
        entry.subject.sync, Change(said["change"]), said["value"], said["reason"], said["before"], said["after"],
        said["diff"],
    )  # fmt: skip
    return Proposed(entry.number, asked, entry.who, entry.at)
