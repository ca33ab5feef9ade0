"""PlatformLateInputs: who has acknowledged that a verdict is late, or that a source is away. The log of acts is all
that is stored of it."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime

from seamline.domain.audit import FROM_PAGE, Act, Kind, Subject
from seamline.domain.errors import Refused
from seamline.domain.late_input import LATE_VERDICT, SOURCE_AWAY, Acknowledged
from seamline.platform import audit
from seamline.platform.audit import entries
from seamline.platform.database import Database, Session

# Sync, source, and since when it is away: an alarm that is raised again is about something else.
Absence = tuple[str, str, datetime]

_AWAY = "kind = %(kind)s and run_id = '' and sync = any(%(syncs)s) and business_date is null"
_ABOUT = "kind = %(kind)s and run_id = '' and sync = any(%(syncs)s) and business_date = any(%(days)s)"


class PlatformLateInputs:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def acknowledged(self, syncs: Sequence[str], days: Sequence[date]) -> Mapping[tuple[str, date], Acknowledged]:
        """The newest of each of these dates, by sync and date."""
        return self._database.transact(lambda session: _read(session, syncs, days))

    def acknowledge(self, sync: str, day: date, *, who: str, reason: str, origin: str = FROM_PAGE) -> None:
        """Enter it into the log of acts; a repeat adds nothing. Refused: without a reason."""
        if not reason:
            raise Refused("a late verdict is acknowledged with a reason", hint="write it into the form")

        def work(session: Session) -> None:
            known = _read(session, [sync], [day]).get((sync, day))
            if known is None or (known.who, known.reason) != (who, reason):
                document = {"about": LATE_VERDICT, "reason": reason}
                audit.append(session, Act(Kind.COMMENTED, Subject(sync, "", day), document, who, origin))

        self._database.transact(work)

    def acknowledged_sources(self, syncs: Sequence[str]) -> Mapping[Absence, Acknowledged]:
        """The newest of each."""
        return self._database.transact(lambda session: _read_sources(session, syncs))

    def acknowledge_source(
        self, absence: Absence, *, who: str, reason: str, until: datetime, origin: str = FROM_PAGE
    ) -> None:
        """Enter it into the log of acts with the new deadline; a repeat adds nothing. Refused: without a reason."""
        if not reason:
            raise Refused("a source that is away is acknowledged with a reason", hint="write it into the form")
        sync, source, since = absence

        def work(session: Session) -> None:
            known = _read_sources(session, [sync]).get(absence)
            if known is None or (known.who, known.reason, known.until) != (who, reason, until):
                document = {"about": SOURCE_AWAY, "source": source, "since": since, "until": until, "reason": reason}
                audit.append(session, Act(Kind.COMMENTED, Subject(sync, ""), document, who, origin))

        self._database.transact(work)


def _read_sources(session: Session, syncs: Sequence[str]) -> dict[Absence, Acknowledged]:
    found: dict[Absence, Acknowledged] = {}
    for entry in entries(session, _AWAY, {"kind": Kind.COMMENTED.value, "syncs": list(syncs)}):
        said = json.loads(entry.document)
        if said.get("about") == SOURCE_AWAY:
            since, until = (datetime.fromisoformat(said[name]) for name in ("since", "until"))
            made = Acknowledged(entry.who, str(said["reason"]), entry.at, until)
            found[entry.subject.sync, str(said["source"]), since] = made
    return found


def _read(session: Session, syncs: Sequence[str], days: Sequence[date]) -> dict[tuple[str, date], Acknowledged]:
    found: dict[tuple[str, date], Acknowledged] = {}
    wanted = {"kind": Kind.COMMENTED.value, "syncs": list(syncs), "days": list(days)}
    for entry in entries(session, _ABOUT, wanted):
        said, day = json.loads(entry.document), entry.subject.business_date
        if day is not None and said.get("about") == LATE_VERDICT:
            found[entry.subject.sync, day] = Acknowledged(entry.who, str(said["reason"]), entry.at)
    return found
