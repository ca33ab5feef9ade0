"""`seamline audit verify`: the whole chain, each stored verdict, decision and cut beside its newest entry, each
signature and file beside its own, and the anchors. All in one view of the database, in bounded memory; whatever is
wrong is reported as it is found. What a report shows of some runs is held against the log by the same checks."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

from psycopg.rows import dict_row

from seamline.domain import audit
from seamline.domain.audit import ChainCheck, Kind, Subject, canonical_json
from seamline.domain.expectation_results import results_fault
from seamline.domain.recorded import Recorded
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.sign_off import KIND_OF
from seamline.platform import attachments, audit_work, checks, reconciliations, rows
from seamline.platform.audit import UNREADABLE, entries
from seamline.platform.audit_anchor import AnchorLine, Anchors
from seamline.platform.database import Session

_ROWS_AT_ONCE = 500
_ENTRIES_PER_NOTE = 50_000

# What is looked at: all of a sync ("": of every one), or what some runs have left, of live tables alone.
_OF_SYNC = "%(sync)s in ('', sync)"
_OF_RUNS = "run_id = any(%(runs)s)"
_LIVE_OF_RUNS = f"{_OF_RUNS} and scope = 'live'"


def _newest(key: str, within: str) -> str:
    return f"""
select distinct on ({key}) {key}, sync, business_date, number, kind, document from audit_entry
where kind = any(%(kinds)s) and {within} order by {key}, number desc
"""


def _verdicts(within: str) -> str:
    return f"""
with newest as ({_newest("run_id, destination, scope", within)}),
stored as (select reconciliation_id, run_id, destination, scope, sync, business_date from reconciliation where {within})
select run_id, destination, scope, coalesce(stored.sync, newest.sync) as sync,
    coalesce(stored.business_date, newest.business_date) as business_date, number, kind, document, reconciliation_id
from newest full join stored using (run_id, destination, scope) order by number, run_id
"""


def _about_verdicts(within: str) -> str:
    return f"""
select run_id, destination, scope, sync, business_date, number, kind, document,
    lag(number) over takes as number_before, lag(kind) over takes as kind_before, lag(document) over takes as before
from audit_entry where kind = any(%(kinds)s) and {within}
window takes as (partition by run_id, destination, scope order by number) order by number
"""


def _decisions(within: str) -> str:
    return f"""
with newest as ({_newest("run_id", within)}),
stored as (select run_id, sync, business_date, result->'decision' as decision from run
    where {within} and coalesce(result->'decision', 'null') <> 'null')
select run_id, '' as destination, '' as scope, coalesce(stored.sync, newest.sync) as sync,
    coalesce(stored.business_date, newest.business_date) as business_date, number, kind, document, decision,
    (stored.sync, stored.business_date) is distinct from (newest.sync, newest.business_date) as is_elsewhere
from newest full join stored using (run_id) order by number, run_id
"""


def _cuts(within: str) -> str:
    return f"""
with newest as (
    select distinct on (sync, destination, business_date, version) * from (
        select sync, destination, business_date, run_id, number, kind, document,
            case when document is json then (document::json->'cut'->>'version')::int end as version
        from audit_entry where kind = any(%(kinds)s) and {within}
    ) entered order by sync, destination, business_date, version, number desc
),
stored as (select * from cut where {within})
select sync, destination, business_date, version, number, kind, document, '' as scope,
    coalesce(stored.run_id, newest.run_id) as run_id, stored.run_id is not null as is_stored,
    newest.run_id as entered_by, stored.run_id is distinct from newest.run_id as is_elsewhere, position, as_of, tables,
    verdict, partial, saved_at
from newest full join stored using (sync, destination, business_date, version) order by number, version
"""


def _sign_offs(within: str) -> str:
    return f"""
with entered as (
    select run_id, destination, sync, business_date, number, kind, who, document,
        case when document is json then (document::json->>'number')::int end as ordinal
    from audit_entry where kind = any(%(kinds)s) and {within}
),
stored as (select run_id, destination, sync, business_date, number as ordinal, act, who, version, reason, verdict,
    verdict_hash, at from sign_off where {within})
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
    with one_view(session):
        for fault in chain(chain_faults(session, checked, anchors, note), stored_faults(session, checked, sync)):
            checked.faults += 1
            report(fault)
    return checked


@contextmanager
def one_view(session: Session) -> Iterator[None]:
    """A transaction whose view of the database stands still: what is entered meanwhile is no fault."""
    with session.transaction():
        session.execute("set transaction isolation level repeatable read, read only")
        yield


def chain_faults(
    session: Session, checked: Checked, anchors: Sequence[Anchors], note: Report = lambda _: None
) -> Iterator[str]:
    """Of the chain, which is one for all syncs, and of its anchors. As `stored_faults` inside `one_view`."""
    yield from _chain(session, checked, note)
    yield from _anchors(session, anchors, checked)


def stored_faults(session: Session, checked: Checked, sync: str) -> Iterator[str]:
    """Of what is stored of a sync beside its entries; "": of all syncs."""
    yield from (f"{_place(row)}: {fault}" for row, fault in _entered(session, _OF_SYNC, {"sync": sync}))
    yield from audit_work.faults(session, sync)
    yield from _files(session, sync, checked)
    for one in _LOOKS:
        for row in _stored(session, one.query(_OF_SYNC), one.kinds, {"sync": sync}):
            setattr(checked, one.counted, getattr(checked, one.counted) + 1)
            yield from (f"{_place(row)}: {fault}" for fault in one.judge(session, row))


def recorded_of(session: Session, runs: Sequence[str]) -> "Takes":
    """What the log of acts has of the cuts of these runs: the same checks, for them alone. In a transaction whose view
    of the database stands still, or what is entered meanwhile looks like a fault."""
    made, arguments = Takes(runs), {"runs": list(runs)}
    _hold(session, made, _Held(Scope.CUT, _OF_RUNS, tuple(kind for one in _LOOKS for kind in one.kinds)))
    for one in (one for one in _LOOKS if one.judge is not _verdict):
        for row in _stored(session, one.query(_OF_RUNS), one.kinds, arguments):
            found = list(one.judge(session, row))
            # Of a cut that was given to another run both are wrong.
            for run_id in {row["run_id"], row.get("entered_by") or row["run_id"]}:
                made.faults(run_id, row["destination"]).extend(found)
    return made


def live_recorded_of(session: Session, runs: Sequence[str]) -> "Takes":
    """The same of the comparisons of live tables by these runs."""
    made = Takes(runs)
    _hold(session, made, _Held(Scope.LIVE, _LIVE_OF_RUNS, audit.ABOUT_VERDICTS))
    return made


@dataclass(frozen=True, slots=True)
class _Held:
    """Verdicts of this scope, and the entries of these kinds that are chosen by `within`."""

    scope: Scope
    within: str
    kinds: tuple[Kind, ...]


def _hold(session: Session, made: "Takes", held: _Held) -> None:
    arguments = {"runs": made.runs}
    about = {**arguments, "kinds": [kind.value for kind in held.kinds]}
    for entry in entries(session, f"{held.within} and kind = any(%(kinds)s)", about):
        made.faults(entry.subject.run_id, entry.subject.destination).extend(filter(None, [entry.own_fault]))
    for row, fault in _entered(session, held.within, arguments):
        made.faults(row["run_id"], row["destination"]).append(fault)
    stored = _Together(session, made.runs, held.scope)
    for row in _stored(session, _verdicts(held.within), audit.ABOUT_VERDICTS, arguments):
        if row["scope"] == held.scope:
            made.hashes[row["run_id"], row["destination"]] = str(_document(row["document"] or "").get("hash", ""))
            made.faults(row["run_id"], row["destination"]).extend(_judged(stored, row))


class Takes:
    """What was found of some takes, by run and destination. What is about a whole run has the destination ""."""

    def __init__(self, runs: Sequence[str]) -> None:
        self.runs = list(runs)
        self.hashes: dict[tuple[str, str], str] = {}
        self._faults: dict[tuple[str, str], list[str]] = {}

    def faults(self, run_id: str, destination: str) -> list[str]:
        return self._faults.setdefault((run_id, destination), [])

    def of(self, run_id: str, destination: str) -> Recorded | None:
        """None where nobody has looked."""
        if run_id not in self.runs:
            return None
        found = dict.fromkeys([*self.faults(run_id, destination), *self.faults(run_id, "")])
        return Recorded(self.hashes.get((run_id, destination), ""), tuple(found))


def _chain(session: Session, checked: Checked, note: Report) -> Iterator[str]:
    links = ChainCheck()
    for entry in entries(session, "true", ()):
        yield from links.faults(entry)
        checked.entries += 1
        if checked.entries % _ENTRIES_PER_NOTE == 0:
            note(f"{checked.entries:,} entries")
    if not checked.entries:
        yield "the log of acts is empty: not even its opening is there"


def _entered(session: Session, within: str, arguments: Mapping[str, object]) -> Iterator[tuple[dict[str, Any], str]]:
    """Verdicts that were changed before an entry that is about something else took them up, each with its row."""
    for row in _stored(session, _about_verdicts(within), audit.ABOUT_VERDICTS, arguments):
        before = _document(row["before"] or "")
        if before and (wrong := audit.entry_fault(row["kind"], before, _logged(row))):
            yield (
                row,
                f"{wrong} was changed between entry {row['number_before']} ({row['kind_before']}) and"
                f" entry {row['number']} ({row['kind']}), which compared nothing",
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


def _stored(
    session: Session, query: str, kinds: Sequence[Kind], arguments: Mapping[str, object]
) -> Iterator[dict[str, Any]]:
    with session.cursor(name="stored", row_factory=dict_row) as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        # `query` is one of the texts above.
        cursor.execute(query.encode(), {**arguments, "kinds": [kind.value for kind in kinds]})
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


class _Verdicts(Protocol):
    """How the stored verdict of a row is read, and held against the results that it names."""

    def reconciliation(self, row: Mapping[str, Any]) -> Reconciliation: ...

    def results_fault(self, found: Reconciliation) -> str: ...


class _OneByOne:
    """For all that there is, in bounded memory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def reconciliation(self, row: Mapping[str, Any]) -> Reconciliation:
        (found,) = reconciliations.read(self._session, "reconciliation_id = %s", (row["reconciliation_id"],))
        return found

    def results_fault(self, found: Reconciliation) -> str:
        return checks.fault(self._session, found)


class _Together:
    """For what some runs have compared in a scope, with as many questions as for one."""

    def __init__(self, session: Session, runs: Sequence[str], scope: Scope) -> None:
        self._one_by_one = _OneByOne(session)
        self._results = checks.results_of(session, runs) if scope is Scope.CUT else {}
        try:
            found = reconciliations.read(session, "run_id = any(%s) and scope = %s", (list(runs), scope.value))
        except UNREADABLE:
            found = ()  # one of them is; each is read alone then
        self._found = {(one.run_id, one.destination): one for one in found}

    def reconciliation(self, row: Mapping[str, Any]) -> Reconciliation:
        return self._found.get((row["run_id"], row["destination"])) or self._one_by_one.reconciliation(row)

    def results_fault(self, found: Reconciliation) -> str:
        return results_fault(found, self._results.get(found.run_id, {})) if found.scope is Scope.CUT else ""


def _verdict(session: Session, row: dict[str, Any]) -> Iterator[str]:
    return _judged(_OneByOne(session), row)


def verdict_missing(row: Mapping[str, Any]) -> str:
    return f"the verdict of entry {row['number']} ({row['kind']}) is missing"


def _judged(stored: _Verdicts, row: dict[str, Any]) -> Iterator[str]:
    if row["reconciliation_id"] is None:
        yield verdict_missing(row)
    elif row["number"] is None:
        yield "the verdict was inserted: no entry names it"
    else:
        try:
            found = stored.reconciliation(row)
            faults = audit.verdict_faults(_logged(row), found)
            if not faults and (wrong := stored.results_fault(found)):
                faults = [wrong]
            for fault in faults:
                yield f"{fault} {_since(row)}"
        except UNREADABLE as exc:
            yield f"the verdict was changed {_since(row)}: it cannot be read any more ({exc})"


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
        now = {**rows.signature_document(row), "number": row["ordinal"]}
        if row["is_elsewhere"] or canonical_json(now) != canonical_json(_logged(row)):
            yield f"the signature was changed {_since(row)}"


@dataclass(frozen=True, slots=True)
class _Look:
    """What is stored of one sort, beside its newest entries: `query` finds both, within a condition, and `judge` says
    what of a row of that is wrong. `counted`: which number of `Checked` it is."""

    kinds: tuple[Kind, ...]
    query: Callable[[str], str]
    judge: Callable[[Session, dict[str, Any]], Iterator[str]]
    counted: str


_LOOKS = (
    _Look(audit.ABOUT_VERDICTS, _verdicts, _verdict, "verdicts"),
    _Look(audit.ABOUT_DECISIONS, _decisions, _decision, "decisions"),
    _Look(audit.ABOUT_CUTS, _cuts, _cut, "cuts"),
    _Look(tuple(KIND_OF.values()), _sign_offs, _sign_off, "signatures"),
)
