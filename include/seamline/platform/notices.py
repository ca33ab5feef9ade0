"""PlatformNotices: which mails are to be sent, and what became of them. Each event is one row for each recipient.

Every method is one short transaction and may be repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.notice import Event, Happened, alarm_ended, is_end_of_alarm, late_verdict_of
from seamline.platform.database import Database, Session

# A mail that was not sent by then says nothing new.
TRIED_FOR_DAYS = 7
# Of what was given up somebody may take note for another week.
_SHOWN_FOR_DAYS = 2 * TRIED_FOR_DAYS
_FAILURE_MAX = 300
# An alarm that lasts longer is ended without a word.
_ALARM_LASTS_DAYS = 60
# As many as one task sends within its time.
_AT_ONCE = 500

_ENTER = """
insert into notice (sync, event, about, recipient, what, link)
select sync, event, about, recipient, what, link from unnest(
    %(syncs)s::text[], %(events)s::text[], %(abouts)s::text[], %(recipients)s::text[], %(texts)s::text[],
    %(links)s::text[]
) as found (sync, event, about, recipient, what, link)
on conflict (sync, event, about, recipient) do nothing
"""
# Whoever claims one has the pause for itself, which grows with each attempt: 2 minutes, 4, … an hour.
_CLAIM = f"""
update notice set attempts = attempts + 1, tried_at = clock_timestamp()
where notice_id in (
    select notice_id from notice where sent_at is null
        and found_at > clock_timestamp() - make_interval(days => {TRIED_FOR_DAYS})
        and (tried_at is null
            or tried_at < clock_timestamp() - make_interval(secs => least(3600, 60 * 2 ^ least(attempts, 10))))
    order by notice_id limit {_AT_ONCE} for update skip locked
)
returning *
"""


@dataclass(frozen=True, slots=True)
class Notice:
    """One event for one recipient, claimed by whoever sends it."""

    number: int
    recipient: str
    happened: Happened


@dataclass(frozen=True, slots=True)
class Unsent:
    """Notices of a sync that were tried and not sent. `since`: of the oldest; `failure`: of the newest attempt."""

    sync: str
    notices: int
    since: datetime
    failure: str
    is_given_up: bool


class PlatformNotices:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def enter(self, found: Sequence[tuple[Happened, str]]) -> int:
        """Events with a recipient each; how many are new."""
        columns = {
            "syncs": [one.sync for one, _ in found],
            "events": [one.event.value for one, _ in found],
            "abouts": [one.about for one, _ in found],
            "recipients": [recipient for _, recipient in found],
            "texts": [one.what for one, _ in found],
            "links": [one.link for one, _ in found],
        }
        return self._database.transact(lambda session: session.execute(_ENTER, columns).rowcount)

    def claim(self) -> tuple[Notice, ...]:
        """What is to be sent now, in the order in which it was found. Nobody else gets these for two minutes, and
        longer after each attempt; one that is neither `sent` nor `failed` by then is claimed again."""

        def work(session: Session) -> tuple[Notice, ...]:
            rows = session.cursor(row_factory=dict_row).execute(_CLAIM).fetchall()
            return tuple(_notice_of(row) for row in sorted(rows, key=lambda row: row["notice_id"]))

        return self._database.transact(work)

    def sent(self, notices: Sequence[Notice]) -> None:
        self._set(notices, "sent_at = clock_timestamp(), failure = ''")

    def failed(self, notices: Sequence[Notice], why: str) -> None:
        """`why`: what the mail server, or the way to it, said."""
        self._set(
            notices, "failure = %(why)s", why=" ".join(why.replace("\0", " ").split())[:_FAILURE_MAX] or "unknown"
        )

    def unsent(self, syncs: Sequence[str]) -> tuple[Unsent, ...]:
        """What could not be sent so far, by sync; for a week after it was given up."""

        def work(session: Session) -> tuple[Unsent, ...]:
            found = session.execute(
                "select sync, count(*), min(found_at), (array_agg(failure order by tried_at desc))[1],"
                " bool_and(found_at <= clock_timestamp() - make_interval(days => %s)) from notice"
                " where sent_at is null and failure <> '' and sync = any(%s)"
                " and found_at > clock_timestamp() - make_interval(days => %s) group by sync order by sync",
                (TRIED_FOR_DAYS, list(syncs), _SHOWN_FOR_DAYS),
            )
            return tuple(Unsent(*row) for row in found)

        return self._database.transact(work)

    def late_verdicts(self, syncs: Sequence[str]) -> Mapping[tuple[str, date], frozenset[str]]:
        """By sync and business date who was sent that its verdict is late within the last week, and not yet that it has
        come."""

        def work(session: Session) -> list[tuple[str, str, str]]:
            return session.execute(
                "select sync, about, recipient from notice where event = %s and sync = any(%s)"
                " and found_at > clock_timestamp() - make_interval(days => %s) and sent_at is not null",
                (Event.LATE.value, list(syncs), TRIED_FOR_DAYS),
            ).fetchall()

        late, came = dict[tuple[str, date], set[str]](), dict[tuple[str, date], set[str]]()
        for sync, about, recipient in self._database.transact(work):
            if (known := late_verdict_of(about)) is not None:
                day, has_come = known
                (came if has_come else late).setdefault((sync, day), set()).add(recipient)
        return {about: frozenset(mine) for about, names in late.items() if (mine := names - came.get(about, set()))}

    def alarms_said(self, syncs: Sequence[str]) -> tuple[tuple[Happened, str], ...]:
        """Alarms of which somebody was sent within the last 60 days that they have opened, and who; without those of
        which the same recipient is to hear, or has heard, that they have ended."""

        def work(session: Session) -> list[tuple[str, str, str, str, str, bool]]:
            return session.execute(
                "select sync, about, what, link, recipient, sent_at is not null from notice"
                " where event = %s and sync = any(%s)"
                " and found_at > clock_timestamp() - make_interval(days => %s)",
                (Event.ALARMS.value, list(syncs), _ALARM_LASTS_DAYS),
            ).fetchall()

        opened, ended = list[tuple[Happened, str]](), set[tuple[Happened, str]]()
        for sync, about, what, link, recipient, is_sent in self._database.transact(work):
            happened = Happened(sync, Event.ALARMS, about, what, link)
            if is_end_of_alarm(happened):
                ended.add((happened, recipient))
            elif is_sent:
                opened.append((happened, recipient))
        return tuple(one for one in opened if (alarm_ended(one[0]), one[1]) not in ended)

    def _set(self, notices: Sequence[Notice], change: str, **values: Any) -> None:
        # `change` is text of this class.
        statement = f"update notice set {change} where notice_id = any(%(numbers)s) and sent_at is null".encode()
        arguments = {"numbers": [one.number for one in notices], **values}
        self._database.transact(lambda session: session.execute(statement, arguments))


def _notice_of(row: Mapping[str, Any]) -> Notice:
    happened = Happened(row["sync"], Event(row["event"]), row["about"], row["what"], row["link"])
    return Notice(row["notice_id"], row["recipient"], happened)
