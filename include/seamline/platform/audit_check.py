"""`seamline audit verify`: the whole chain, each stored verdict, decision and cut beside its newest entry, each
signature and file beside its own, and the anchors. All in one view of the database, in bounded memory; whatever is
wrong is reported as it is found."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from psycopg.rows import dict_row

from seamline.domain import audit
from seamline.domain.audit import ChainCheck, Kind, Subject, canonical_json
from seamline.domain.runs import Reconciliation
from seamline.platform import attachments, audit_work, checks, reconciliations, rows, signatures
from seamline.platform.audit import UNREADABLE, entries
from seamline.platform.audit_anchor import AnchorLine, Anchors
from seamline.platform.database import Session

_ROWS_AT_ONCE = 500
_ENTRIES_PER_NOTE = 50_000

_NEWEST = """
select distinct on ({key}) {key}, sync, business_date, number, kind, document from audit_entry
where kind = any(%(kinds)s) and %(sync)s in ('', sync) order by {key}, number desc
"""
_VERDICTS = f"""
with newest as ({_NEWEST.format(key="run_id, destination, scope")}),
stored as (select reconciliation_id, run_id, destination, scope, sync, business_date from reconciliation
    where %(sync)s in ('', sync))
select run_id, destination, scope, coalesce(stored.sync, newest.sync) as sync,
    coalesce(stored.business_date, newest.business_date) as business_date, number, kind, document, reconciliation_id
from newest full join stored using (run_id, destination, scope) order by number, run_id
"""
_ABOUT_VERDICTS = """
select run_id, destination, scope, sync, business_date, number, kind, document,
    lag(number) over takes as number_before, lag(kind) over takes as kind_before, lag(document) over takes as before
from audit_entry where kind = any(%(kinds)s) and %(sync)s in ('', sync)
window takes as (partition by run_id, destination, scope order by number) order by number
"""
_DECISIONS = f"""
with newest as ({_NEWEST.format(key="run_id")}),
stored as (select run_id, sync, business_date, result->'decision' as decision from run
    where %(sync)s in ('', sync) and coalesce(result->'decision', 'null') <> 'null')
select run_id, '' as destination, '' as scope, coalesce(stored.sync, newest.sync) as sync,
    coalesce(stored.business_date, newest.business_date) as business_date, number, kind, document, decision,
    (stored.sync, stored.business_date) is distinct from (newest.sync, newest.business_date) as is_elsewhere
from newest full join stored using (run_id) order by number, run_id
"""
_CUTS = """
with newest as (
    select distinct on (sync, destination, business_date, version) * from (
        select sync, destination, business_date, run_id, number, kind, document,
            case when document is json then (document::json->'cut'->>'version')::int end as version
        from audit_entry where kind = any(%(kinds)s) and %(sync)s in ('', sync)
    ) entered order by sync, destination, business_date, version, number desc
),
stored as (select * from cut where %(sync)s in ('', sync))
select sync, destination, business_date, version, number, kind, document, '' as scope,
    coalesce(stored.run_id, newest.run_id) as run_id, stored.run_id is not null as is_stored,
    stored.run_id is distinct from newest.run_id as is_elsewhere, position, as_of, tables, verdict, partial, saved_at
from newest full join stored using (sync, destination, business_date, version) order by number, version
"""
_SIGN_OFFS = """
with entered as (
    select run_id, destination, sync, business_date, number, kind, who, document,
        case when document is json then (document::json->>'number')::int end as ordinal
    from audit_entry where kind = any(%(kinds)s) and %(sync)s in ('', sync)
),
stored as (select run_id, destination, sync, business_date, number as ordinal, act, who, version, reason, verdict,
    verdict_hash, at from sign_off where %(sync)s in ('', sync))
select run_id, destination, 'cut' as scope, coalesce(stored.sync, entered.sync) as sync,
    coalesce(stored.business_date, entered.business_date) as business_date, entered.number, kind, document, ordinal,
    act, stored.who, version, reason, verdict, verdict_hash, at,
    (stored.sync, stored.business_date, stored.who, stored.act) is distinct from
    (entered.sync, entered.business_date, entered.who, entered.kind) as is_elsewhere
from entered full join stored using (run_id, destination, ordinal) order by entered.number, run_id, ordinal
"""
Report = Callable[[str], None]


@dataclass(slots=True)
class Checked:
    """How much was looked at, and how many lines say that something is wrong. `anchored`: the newest entry that an
    anchor names."""

    entries: int = 0
    verdicts: int = 0
    decisions: int = 0
    cuts: int = 0
    signatures: int = 0
    files: int = 0
    anchored: int = 0
    faults: int = 0


def check(
    session: Session,
    *,
    sync: str,
    anchors: Sequence[Anchors],
    report: Report,
    note: Report = lambda _: None,
) -> Checked:
    """Report one line per fault. `sync` "": stored rows of all syncs; the chain is one, and always checked whole.
    `note` is for progress. `anchors` are older than this call: an anchor names what was committed before it."""
    checked = Checked()

    def found(fault: str) -> None:
        checked.faults += 1
        report(fault)

    with session.transaction():
        session.execute("set transaction isolation level repeatable read, read only")
        for faults in (
            _chain(session, checked, note),
            _anchors(session, anchors, checked),
            _entered(session, sync),
            audit_work.faults(session, sync),
            _files(session, sync, checked),
        ):
            for fault in faults:
                found(fault)
        for kinds, query, judge, counted in (
            (audit.ABOUT_VERDICTS, _VERDICTS, _verdict, "verdicts"),
            (audit.ABOUT_DECISIONS, _DECISIONS, _decision, "decisions"),
            (audit.ABOUT_CUTS, _CUTS, _cut, "cuts"),
            (tuple(signatures.KIND_OF.values()), _SIGN_OFFS, _sign_off, "signatures"),
        ):
            for row in _stored(session, query, kinds, sync):
                setattr(checked, counted, getattr(checked, counted) + 1)
                for fault in judge(session, row):
                    found(f"{_place(row)}: {fault}")
    return checked


def _chain(session: Session, checked: Checked, note: Report) -> Iterator[str]:
    chain = ChainCheck()
    for entry in entries(session, "true", ()):
        yield from chain.faults(entry)
        checked.entries += 1
        if checked.entries % _ENTRIES_PER_NOTE == 0:
            note(f"{checked.entries:,} entries")
    if not checked.entries:
        yield "the log of acts is empty: not even its opening is there"


def _entered(session: Session, sync: str) -> Iterator[str]:
    """Verdicts that were changed before an entry that is about something else took them up."""
    for row in _stored(session, _ABOUT_VERDICTS, audit.ABOUT_VERDICTS, sync):
        before = _document(row["before"] or "")
        if before and (wrong := audit.entry_fault(row["kind"], before, _logged(row))):
            yield (
                f"{_place(row)}: {wrong} was changed between entry {row['number_before']} ({row['kind_before']}) and"
                f" entry {row['number']} ({row['kind']}), which compared nothing"
            )


def _files(session: Session, sync: str, checked: Checked) -> Iterator[str]:
    for fault in attachments.checks(session, sync):
        checked.files += 1
        if fault:
            yield fault


def _anchors(session: Session, files: Sequence[Anchors], checked: Checked) -> Iterator[str]:
    for file in files:
        lines = file.lines()
        while batch := list(islice(lines, _ROWS_AT_ONCE)):
            yield from _anchors_at_once(session, batch, checked)


def _anchors_at_once(session: Session, lines: Sequence[AnchorLine], checked: Checked) -> Iterator[str]:
    numbers = [line.head.number for line in lines if line.head]
    cursor = session.execute("select number, hash from audit_entry where number = any(%s)", (numbers,))
    stored = {int(number): str(hashed) for number, hashed in cursor}
    for line in lines:
        if line.head is None:
            yield f"anchor {line.place}: it is no anchor"
        elif line.head.number not in stored:
            yield f"anchor {line.place}: entry {line.head.number}, which it names, is missing"
        elif stored[line.head.number] != line.head.hash:
            yield (
                f"anchor {line.place}: entry {line.head.number} has another hash than when it was anchored;"
                " the chain was written again from there or from before"
            )
        else:
            checked.anchored = max(checked.anchored, line.head.number)


def _stored(session: Session, query: str, kinds: Sequence[Kind], sync: str) -> Iterator[dict[str, Any]]:
    with session.cursor(name="stored", row_factory=dict_row) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        # `query` is one of the texts above.
        cursor.execute(query.encode(), {"kinds": [kind.value for kind in kinds], "sync": sync})
        yield from cursor


def _place(row: dict[str, Any]) -> str:
    return str(Subject(row["sync"], row["destination"], row["business_date"], row["run_id"], row["scope"]))


def _since(row: dict[str, Any]) -> str:
    return f"after entry {row['number']} ({row['kind']})"


def _logged(row: dict[str, Any]) -> dict[str, Any]:
    return _document(row["document"])


def _document(text: str) -> dict[str, Any]:
    """Of a document that was made unreadable nothing is left: the chain has named its entry already."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _verdict(session: Session, row: dict[str, Any]) -> Iterator[str]:
    if row["reconciliation_id"] is None:
        yield f"the verdict of entry {row['number']} ({row['kind']}) is missing"
    elif row["number"] is None:
        yield "the verdict was inserted: no entry names it"
    else:
        try:
            (found,) = _reconciliation(session, row["reconciliation_id"])
            faults = audit.verdict_faults(_logged(row), found)
            if not faults and (wrong := checks.fault(session, found)):
                faults = [wrong]
            for fault in faults:
                yield f"{fault} {_since(row)}"
        except UNREADABLE as exc:
            yield f"the verdict was changed {_since(row)}: it cannot be read any more ({exc})"


def _reconciliation(session: Session, number: int) -> tuple[Reconciliation, ...]:
    return reconciliations.read(session, "reconciliation_id = %s", (number,))


def _decision(session: Session, row: dict[str, Any]) -> Iterator[str]:
    if row["number"] is None:
        yield "the decision was inserted: no entry names it"
        return
    entered, stored = _logged(row).get("decision"), row["decision"]
    if stored is None and entered is not None:
        yield f"the decision of entry {row['number']} ({row['kind']}) is missing"
    elif canonical_json(stored) != canonical_json(entered) or (stored is not None and row["is_elsewhere"]):
        yield f"the decision was changed {_since(row)}"


def _cut(session: Session, row: dict[str, Any]) -> Iterator[str]:
    what = f"version {row['version']} of the cut"
    is_over = row["number"] is None or row["kind"] == Kind.CUT_EXPIRED
    if not row["is_stored"]:
        if not is_over:
            yield f"{what}, of entry {row['number']} ({row['kind']}), is missing"
        return
    if is_over:
        yield f"{what} was inserted: no entry names it"
        return
    try:
        now = canonical_json(audit.cut_json(rows.cut_of(row)))
        is_changed = row["is_elsewhere"] or now != canonical_json(_logged(row).get("cut"))
    except UNREADABLE:
        is_changed = True
    if is_changed:
        yield f"{what} was changed {_since(row)}"


def _sign_off(session: Session, row: dict[str, Any]) -> Iterator[str]:
    if row["number"] is None:
        yield f"signature {row['ordinal']} of the take was inserted: no entry names it"
    elif row["act"] is None:
        yield f"the signature of entry {row['number']} ({row['kind']}) is missing"
    else:
        now = {**signatures.document_of(row), "number": row["ordinal"]}
        if row["is_elsewhere"] or canonical_json(now) != canonical_json(_logged(row)):
            yield f"the signature was changed {_since(row)}"
