"""PlatformLateInputs: who has acknowledged that a verdict is late. The log of acts is all that is stored of it."""

import json
from collections.abc import Mapping, Sequence
from datetime import date

from seamline.domain.audit import FROM_PAGE, Act, Kind, Subject
from seamline.domain.errors import Refused
from seamline.domain.late_input import LATE_VERDICT, Acknowledged
from seamline.platform import audit
from seamline.platform.audit import entries
from seamline.platform.database import Database, Session

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


def _read(session: Session, syncs: Sequence[str], days: Sequence[date]) -> dict[tuple[str, date], Acknowledged]:
    found: dict[tuple[str, date], Acknowledged] = {}
    wanted = {"kind": Kind.COMMENTED.value, "syncs": list(syncs), "days": list(days)}
    for entry in entries(session, _ABOUT, wanted):
        said, day = json.loads(entry.document), entry.subject.business_date
        if day is not None and said.get("about") == LATE_VERDICT:
            found[entry.subject.sync, day] = Acknowledged(entry.who, str(said["reason"]), entry.at)
    return found
