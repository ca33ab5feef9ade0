"""The log of acts: who did what, when, from where; each entry carries a hash that holds all entries before it.

**Canonical JSON.** Whoever repeats a hash writes a value so, as UTF-8 without a byte order mark: no blanks between
tokens; the keys of an object sorted by code point; texts with `\\"`, `\\\\`, `\\b`, `\\f`, `\\n`, `\\r`, `\\t`, and
`\\u00xx` (lower case) for the other characters below U+0020, every other character as it is; whole numbers in decimal
digits; a number with a fraction as a *text* without an exponent; a moment as a text in UTC with six digits of the
second and `Z`, as `2026-03-02T00:31:00.000000Z`; a date as `2026-03-01`; nothing as `null`.

**An entry** has two hashes, both SHA-256 in lower hex. `content_hash` is of the object of `at`, `business_date`,
`destination`, `document`, `kind`, `origin`, `run_id`, `scope`, `sync` and `who`. `hash` is of the object of `content`
(the content hash), `number` and `previous` (the hash of the entry before; 64 zeros before entry 1). So a chain can be
followed through entries of which only the content hash is shown.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from seamline.domain.decision import DecisionState
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import position_to_json
from seamline.domain.runs import EXPECTATIONS, Cut, Reconciliation
from seamline.domain.verdict import Break, ControlTotal, TableVerdict
from seamline.domain.witness import witness_to_json

# What stands in place of a hash before the first entry.
NOTHING_BEFORE = "0" * 64
# Who acts where no person asked for it, and where most acts come from.
SCHEDULER = "scheduler"
FROM_RUN = "run"
FROM_AIRFLOW = "Airflow"
FROM_COMMAND_LINE = "command line"
FROM_PAGE = "page"
FROM_REST = "REST"


class Kind(StrEnum):
    """Every kind of act there is. Some that the database knows are written by no code yet, as `REVEALED`."""

    LOG_OPENED = "log opened"
    VERDICT_ADOPTED = "verdict adopted"
    DECISION_ADOPTED = "decision adopted"
    CUT_ADOPTED = "cut adopted"

    COMPARED = "compared"
    CHECKED = "checked"
    SIGNATURE_KEPT = "signature kept"

    ASKED = "asked"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "question withdrawn"

    PUBLISHED = "published"
    CUT_EXPIRED = "cut expired"

    STREAM_PAUSED = "stream paused"
    STREAM_RESUMED = "stream resumed"
    STREAM_RESTARTED = "stream restarted"
    STREAM_FORGOTTEN = "stream forgotten"

    TABLE_PARKED = "table parked"
    TABLE_RETURNED = "table returned"

    ASSIGNED = "assigned"
    HANDED_BACK = "handed back"
    COMMENTED = "commented"
    ATTACHED = "attached"
    EXPLAINED = "explained"
    TOLERATED = "tolerated"
    BREAK_CLOSED = "break closed"
    BREAK_REOPENED = "break opened again"
    TOLERANCE_ASKED = "tolerance asked"
    TOLERANCE_APPROVED = "tolerance approved"
    TOLERANCE_ENDED = "tolerance ended"
    REPAIR_PLANNED = "repair planned"
    REPAIR_APPROVED = "repair approved"
    REPAIR_APPLIED = "repair applied"
    SIGNED = "signed"
    REOPENED = "reopened"
    RESTATEMENT_ASKED = "restatement asked"
    EXPORTED = "exported"
    REVEALED = "revealed"


# By what they are about: the newest entry of such a group says what must be stored now.
ABOUT_VERDICTS = (Kind.VERDICT_ADOPTED, Kind.COMPARED, Kind.CHECKED, Kind.SIGNATURE_KEPT)
# Those that change the evidence of a verdict, and nothing of what was found.
_COMPARES_NOTHING = (Kind.CHECKED, Kind.SIGNATURE_KEPT)
ABOUT_DECISIONS = (
    Kind.DECISION_ADOPTED,
    Kind.ASKED,
    Kind.APPROVED,
    Kind.REJECTED,
    Kind.EXPIRED,
    Kind.WITHDRAWN,
)
ABOUT_CUTS = (Kind.CUT_ADOPTED, Kind.PUBLISHED, Kind.CUT_EXPIRED)
OF_DECISION = {
    DecisionState.WAITING: Kind.ASKED,
    DecisionState.APPROVED: Kind.APPROVED,
    DecisionState.REJECTED: Kind.REJECTED,
    DecisionState.EXPIRED: Kind.EXPIRED,
}


def canonical_json(value: object) -> str:
    """The text that is hashed; see the module. TypeError for a value that has no canonical form."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def moment_text(moment: datetime) -> str:
    """In UTC to the microsecond. A moment without a zone counts as one in UTC."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _plain(value: object) -> Any:
    # The most frequent ones first: a reconciliation may have tens of thousands of texts.
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _leaf(value)


def _leaf(value: object) -> str | int:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Decimal):
        # With its scale, as PostgreSQL's numeric keeps it, which has no minus zero.
        return format(value if value else value.copy_abs(), "f")
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no canonical JSON for a {type(value).__name__}")


def _number(value: float) -> str | int:
    """jsonb keeps the number and not its form: 1e16 comes back as a whole one."""
    number = Decimal(repr(value))
    if not number.is_finite():
        raise ValueError(f"no canonical JSON for the number {value}")
    return int(number) if number == number.to_integral_value() else format(number, "f")


def _key(key: object) -> str:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"no canonical JSON for an object with a {type(key).__name__} as a key")


# ---- entries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """What an act is about. What does not apply is "" or None; `scope` as in `runs.Scope`."""

    sync: str = ""
    destination: str = ""
    business_date: date | None = None
    run_id: str = ""
    scope: str = ""

    def __str__(self) -> str:
        place = " → ".join(name for name in (self.sync, self.destination) if name)
        day = f" {self.business_date}" if self.business_date else ""
        what = ", live tables" if self.scope == "live" else ""
        return f"{place}{day}{f', run {self.run_id}' if self.run_id else ''}{what}"


@dataclass(frozen=True, slots=True)
class Act:
    """An entry that is yet to be made. `who` "": whoever asked for the run of the subject, else the scheduler."""

    kind: Kind
    subject: Subject
    document: Mapping[str, object]
    who: str = ""
    origin: str = FROM_RUN


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it is stored. `document` is canonical JSON. `number` counts from 1 without gaps."""

    number: int
    at: datetime
    kind: str
    who: str
    origin: str
    subject: Subject
    document: str
    previous: str
    content_hash: str
    hash: str

    @property
    def content(self) -> str:
        """The canonical JSON behind `content_hash`. A document that is not canonical stands in it as it is."""
        fields: dict[str, object] = {
            "at": self.at,
            "business_date": self.subject.business_date,
            "destination": self.subject.destination,
            "kind": self.kind,
            "origin": self.origin,
            "run_id": self.subject.run_id,
            "scope": self.subject.scope,
            "sync": self.subject.sync,
            "who": self.who,
        }
        texts = {name: canonical_json(value) for name, value in fields.items()} | {"document": self.document}
        return "{" + ",".join(f'"{name}":{texts[name]}' for name in sorted(texts)) + "}"

    @property
    def own_fault(self) -> str:
        """What is wrong with it, whatever stands before it; "" if nothing."""
        if sha256_of(self.content) != self.content_hash:
            return f"{self}: its content was changed"
        own = link_hash(content_hash=self.content_hash, number=self.number, previous=self.previous)
        return f"{self}: its number or a hash was changed" if own != self.hash else ""

    def __str__(self) -> str:
        about = str(self.subject)
        return f"entry {self.number} ({self.kind}{f', {about}' if about else ''})"


def link_hash(*, content_hash: str, number: int, previous: str) -> str:
    """The hash of an entry."""
    return sha256_of(canonical_json({"content": content_hash, "number": number, "previous": previous}))


@dataclass(slots=True)
class ChainCheck:
    """Holds each entry of a chain against itself and against the one before. It remembers only the last one."""

    number: int = 0
    hash: str = NOTHING_BEFORE

    def faults(self, entry: Entry) -> Iterator[str]:
        """What is wrong with the next entry. One that was changed is named once, not again by its followers."""
        if entry.number != self.number + 1:
            yield _gap(self.number, entry)
        if own_fault := entry.own_fault:
            yield own_fault
        if entry.previous != self.hash and entry.number == self.number + 1:
            yield f"{entry}: it follows another entry than entry {self.number} as that is stored"
        self.number, self.hash = entry.number, entry.hash


def _gap(before: int, entry: Entry) -> str:
    if entry.number <= before:
        return f"{entry}: its number is not above {before}, that of the entry before"
    if entry.number == before + 2:
        return f"entry {before + 1} is missing"
    return f"entries {before + 1} to {entry.number - 1} are missing"


# ---- what entries say of verdicts, decisions and cuts ---------------------------------------------------------------


def verdict_json(found: Reconciliation) -> dict[str, object]:
    """Everything that is stored of a reconciliation."""
    return {
        "business_date": found.business_date,
        "destination": found.destination,
        "ended_at": found.ended_at,
        "evidence": found.evidence,
        "mode": found.mode,
        "position": None if found.position is None else position_to_json(found.position),
        "position_time": found.position_time,
        "run_id": found.run_id,
        "scope": found.scope,
        "started_at": found.started_at,
        "sync": found.sync,
        "tables": [_table_json(table) for table in found.tables],
        "verdict": found.verdict,
    }


def _table_json(table: TableVerdict) -> dict[str, object]:
    return {
        "breaks": [_break_json(one) for one in table.breaks],
        "breaks_total": table.breaks_total,
        "destination_rows": table.destination_rows,
        "position": table.position,
        "reason": table.reason,
        "source_rows": table.source_rows,
        "table": table.table,
        "totals": [_total_json(total) for total in table.totals],
        "verdict": table.verdict,
    }


def _break_json(one: Break) -> dict[str, object]:
    # One that no log was asked about, and that has nothing beside it, has the hash that it had before there was either.
    witness = {"witness": witness_to_json(one.witness)} if one.witness else {}
    beside = {"beside": one.beside} if one.beside else {}
    return {
        **witness,
        **beside,
        "destination": one.destination,
        "key": one.key,
        "source": one.source,
        "table": one.table,
        "type": one.type,
    }


def _total_json(total: ControlTotal) -> dict[str, object]:
    return {
        "column": total.column,
        "destination_rows": total.destination_rows,
        "destination_sum": total.destination_sum,
        "group": total.group,
        "source_rows": total.source_rows,
        "source_sum": total.source_sum,
        "table": total.table,
    }


def verdict_hash(found: Reconciliation) -> str:
    """SHA-256 over the canonical JSON of everything that is stored of a reconciliation."""
    return sha256_of(canonical_json(verdict_json(found)))


def verdict_act(found: Reconciliation, kind: Kind, **rest: str) -> Act:
    """`rest`: `who` and `origin`, where it is not the run that acts."""
    return Act(kind, _subject_of(found), verdict_document(found), **rest)


def _subject_of(found: Reconciliation) -> Subject:
    return Subject(found.sync, found.destination, found.business_date, found.run_id, found.scope.value)


def verdict_document(found: Reconciliation) -> dict[str, object]:
    """The verdict in a word, its hash, and hashes of its parts, by which a change is traced to a table; and what the
    expectations said, where they have run."""
    whole = verdict_json(found)
    checked = {EXPECTATIONS: found.evidence[EXPECTATIONS]} if EXPECTATIONS in found.evidence else {}
    tables = {table.table: sha256_of(canonical_json(_table_json(table))) for table in found.tables}
    header = sha256_of(canonical_json({**whole, "tables": sorted(tables)}))
    return {
        **checked,
        "hash": sha256_of(canonical_json(whole)),
        "header": header,
        "tables": tables,
        "verdict": found.verdict,
    }


def verdict_faults(logged: Mapping[str, Any], found: Reconciliation) -> list[str]:
    """What of a stored reconciliation is not as its newest entry has it: tables, and all that is beside them."""
    # Its tables and header are hashed only where they have to be named: each report of a date asks here.
    if verdict_hash(found) == logged.get("hash"):
        return []
    now = verdict_document(found)
    before, after = logged.get("tables", {}), now["tables"]
    assert isinstance(after, dict)
    faults = [f"table {name} was removed" for name in before if name not in after]
    faults += [f"table {name} was inserted" for name in after if name not in before]
    faults += [f"table {name} was changed" for name in after if name in before and after[name] != before[name]]
    if now.get(EXPECTATIONS) != logged.get(EXPECTATIONS):
        faults.append("what its expectations said was changed")
    elif sorted(before) == sorted(after) and now["header"] != logged.get("header"):
        faults.append("its header or evidence was changed")
    return faults or ["its tables stand in another order"]


def entry_fault(kind: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What the entry of a verdict says otherwise than the one before it about the same verdict, though nothing was
    compared in between: `checked` enters other results, `signature kept` a signature. "" if nothing. Documents as
    `verdict_document` has them."""
    if kind not in _COMPARES_NOTHING:
        return ""
    old, new = before.get("tables") or {}, now.get("tables") or {}
    if names := sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
        return f"table {', '.join(names)}"
    if before.get("verdict") != now.get("verdict"):
        return "the verdict"
    is_other = kind == Kind.SIGNATURE_KEPT and before.get(EXPECTATIONS) != now.get(EXPECTATIONS)
    return "what its expectations said" if is_other else ""


def cut_act(cut: Cut, kind: Kind, *, verdict: str, **rest: str) -> Act:
    """`verdict`: the hash of the verdict of this cut. `rest` as in `verdict_act`."""
    subject = Subject(cut.sync, cut.destination, cut.business_date, cut.run_id, "cut")
    return Act(kind, subject, {"cut": cut_json(cut), "verdict_hash": verdict}, **rest)


def cut_json(cut: Cut) -> dict[str, object]:
    """Everything that is stored of a cut beside the subject of its entry."""
    if cut.saved_at is None:
        raise InvariantViolated("a cut is entered into the log after it is stored", sync=cut.sync)
    return {
        "as_of": cut.as_of,
        "partial": cut.partial,
        "position": position_to_json(cut.position),
        "saved_at": cut.saved_at,
        "tables": cut.tables,
        "verdict": cut.verdict,
        "version": cut.version,
    }


def decision_act(subject: Subject, decision: Mapping[str, Any] | None, verdicts: Mapping[str, str]) -> Act:
    """`decision` as `Decision.to_json` has it, None: it was taken back. `verdicts`: of each destination that it is
    about the hash of the verdict that it is about."""
    document = {"decision": decision, "verdict_hashes": verdicts}
    if decision is None:
        # Of whoever cleared a task of the run nothing is known here.
        return Act(Kind.WITHDRAWN, subject, document, SCHEDULER)
    kind = OF_DECISION[DecisionState(decision["state"])]
    if kind in (Kind.APPROVED, Kind.REJECTED):
        return Act(kind, subject, document, decision["who"] or "somebody", FROM_AIRFLOW)
    return Act(kind, subject, document, SCHEDULER if kind is Kind.EXPIRED else "")
