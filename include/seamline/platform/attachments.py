"""PlatformAttachments: files that people attach to breaks and to takes of dates, each version stored with its entry in
the log of acts.

Every method is one short transaction and may be repeated: the same bytes under the same name are one version.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.attachment import FILES_MAX, Attachment, File, attached_document
from seamline.domain.audit import FROM_PAGE, Act, Kind, Subject
from seamline.domain.errors import InvariantViolated, Refused
from seamline.platform import audit
from seamline.platform.database import Database, Session

# About the comparison that has the break; of one that is gone, the newest cut that had it.
_BREAK = """
select w.destination, w.in_cut, w.in_live, w.cut_date, coalesce((
    select r.run_id from break b join reconciliation r using (reconciliation_id)
    where b.break_id = w.break_id and r.sync = w.sync and r.scope = 'cut' order by r.ended_at desc limit 1
), '') as last_cut
from break_work w where w.break_id = %s and w.sync = %s for update of w
"""
_TAKE = """
select business_date from reconciliation where (sync, run_id, destination, scope) = (%s, %s, %s, 'cut') for update
"""
_FOUND = """
select a.number, a.name, a.version, octet_length(a.content) as size, e.who, e.at,
    e.document::json->>'sha256' as sha256
from attachment a join audit_entry e using (number)
where (e.sync, a.break_id, a.run_id, a.destination) = (%s, %s, %s, %s)
order by a.name, a.version desc
"""
_TAKEN = """
select e.sync, e.destination, e.business_date, e.run_id, e.scope, e.document::json->>'sha256' as sha256, a.name,
    a.content
from attachment a join audit_entry e using (number)
where (e.sync, a.break_id, a.run_id, a.destination) = (%s, %s, %s, %s) and a.number = %s
"""
# Nobody else appends before this transaction ends, so the newest entry is the file's.
_KEEP = """
insert into attachment (number, break_id, run_id, destination, name, version, content)
values ((select max(number) from audit_entry), %s, %s, %s, %s, %s, %s)
"""
_OF_DATE = """
select number, content from attachment join audit_entry using (number)
where sync = %s and business_date = %s order by number
"""
_CHECKED = """
select coalesce(e.number, a.number) as number, e.kind, coalesce(e.sync, '') as sync,
    coalesce(e.destination, '') as destination, e.business_date, coalesce(e.run_id, '') as run_id,
    coalesce(e.scope, '') as scope, a.number is null as is_missing, e.kind is distinct from 'attached' as is_inserted,
    case when e.document is json then (a.break_id, a.name, a.version::text, encode(sha256(a.content), 'hex'))
        is distinct from (coalesce(e.document::json->'break_ids'->>0, ''), e.document::json->>'file',
            e.document::json->>'version', e.document::json->>'sha256')
        or a.run_id <> '' and (a.run_id, a.destination) is distinct from (e.run_id, e.destination)
        else true end as is_changed
from audit_entry e full join attachment a using (number)
where (e.kind = 'attached' or a.number is not null) and (%(sync)s in ('', e.sync) or e.number is null) order by 1
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """What has files: a break, or a take of a date, which is a run in a destination."""

    sync: str
    break_id: str = ""
    run_id: str = ""
    destination: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.sync, self.break_id, self.run_id, self.destination


class PlatformAttachments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def attach(self, to: Holder, file: File, *, who: str, origin: str = FROM_PAGE) -> None:
        """As the next version of its name. Refused: the sync has no such break or take, the date is signed, it has too
        many. `file` was checked before."""

        def work(session: Session) -> None:
            subject = _subject(session, to)
            known = _files_of(session, to)
            versions = [one for one in known if one.name == file.name]
            if versions and versions[0].sha256 == file.sha256:
                return
            if len(known) >= FILES_MAX:
                raise Refused(f"at most {FILES_MAX} files are kept here, all versions counted")
            version = versions[0].version + 1 if versions else 1
            act = Act(Kind.ATTACHED, subject, attached_document(file, version, to.break_id), who, origin)
            if to.break_id:
                audit.append_about(session, act, [to.break_id])
            else:
                audit.append(session, act)
            session.execute(_KEEP, (*to.key[1:], file.name, version, file.content))

        self._database.transact(work)

    def files(self, of: Holder) -> tuple[Attachment, ...]:
        """By name, the newest version first."""
        return self._database.transact(lambda session: _files_of(session, of))

    def taken(self, of: Holder, number: int) -> tuple[Subject, File] | None:
        """One version with its bytes, and what its entry is about; None where there is no such file. InvariantViolated:
        its bytes are not those that were attached."""

        def work(session: Session) -> tuple[Subject, File] | None:
            cursor = session.cursor(row_factory=dict_row, binary=True)
            row = cursor.execute(_TAKEN, (*of.key, number)).fetchone()
            if row is None:
                return None
            file = File(row["name"], bytes(row["content"]))
            if file.sha256 != row["sha256"]:
                raise InvariantViolated(
                    f"the stored file of entry {number} is not what was attached",
                    hint="`./seamline audit verify` names what was changed",
                )
            return _subject_of(row), file

        return self._database.transact(work)


def _subject(session: Session, to: Holder) -> Subject:
    """What the act is about. No other act on it comes between, until this transaction ends."""
    return _subject_of_break(session, to) if to.break_id else _subject_of_take(session, to)


def _subject_of_break(session: Session, to: Holder) -> Subject:
    row = session.cursor(row_factory=dict_row).execute(_BREAK, (to.break_id, to.sync)).fetchone()
    if row is None:
        raise Refused(f"sync {to.sync} has no break {to.break_id}")
    if row["in_live"] and not row["in_cut"]:
        return Subject(to.sync, row["destination"], None, row["in_live"], "live")
    return Subject(to.sync, row["destination"], row["cut_date"], row["in_cut"] or row["last_cut"], "cut")


def _subject_of_take(session: Session, to: Holder) -> Subject:
    row = session.execute(_TAKE, (to.sync, to.run_id, to.destination)).fetchone()
    if row is None:
        raise Refused(f"run {to.run_id} of {to.sync} has compared no cut in {to.destination}")
    return Subject(to.sync, to.destination, row[0], to.run_id, "cut")


def _files_of(session: Session, of: Holder) -> tuple[Attachment, ...]:
    cursor = session.cursor(row_factory=dict_row)
    return tuple(Attachment(**row) for row in cursor.execute(_FOUND, of.key))


def _subject_of(row: Mapping[str, Any]) -> Subject:
    return Subject(row["sync"], row["destination"], row["business_date"], row["run_id"], row["scope"])


# ---- evidence ------------------------------------------------------------------------------------------------------


def of_date(session: Session, sync: str, day: date) -> Iterator[tuple[int, bytes]]:
    """The number of the entry and the bytes of each file that was attached about the date, as they are stored; one in
    memory. Inside a transaction."""
    with session.cursor(name="files_of_date", binary=True) as cursor:
        cursor.itersize = 1
        cursor.execute(_OF_DATE, (sync, day))
        for number, content in cursor:
            yield number, bytes(content)


def checks(session: Session, sync: str) -> Iterator[str]:
    """One text for each file that is stored or was entered: what is wrong with it, "" where nothing is. `sync` "": of
    all syncs. Inside a transaction."""
    with session.cursor(name="files_checked", row_factory=dict_row) as cursor:
        cursor.execute(_CHECKED, {"sync": sync})
        for row in cursor:
            yield _fault(row)


def _fault(row: Mapping[str, Any]) -> str:
    if row["is_inserted"]:
        return f"file {row['number']} was inserted: no entry names it"
    if row["is_missing"]:
        return f"{_subject_of(row)}: the file of entry {row['number']} (attached) is missing"
    if row["is_changed"]:
        return f"{_subject_of(row)}: the file was changed after entry {row['number']} (attached)"
    return ""
