"""Cuts and comparisons as JSON documents. They say of a cut what every report says of it: its state, from the same
value. Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any

from seamline.domain import differences
from seamline.domain.audit import Entry
from seamline.domain.break_age import Aged, band_in_words
from seamline.domain.break_id import break_id
from seamline.domain.break_work import Work
from seamline.domain.cut_state import CutState, of_live
from seamline.domain.level import is_achieved, level_of, not_shown
from seamline.domain.recorded import NOT_AS_RECORDED, Recorded
from seamline.domain.runs import Reconciliation
from seamline.domain.sign_off import SignOff, by_take
from seamline.domain.tolerance import Tolerance
from seamline.domain.verdict import TableVerdict
from seamline.domain.witness import witness_to_json
from seamline.report.worked import NOTHING, Worked


def to_json(
    cuts: Sequence[CutState],
    live: Sequence[Reconciliation],
    *,
    levels: Mapping[str, str],
    worked: Worked = NOTHING,
    sign_offs: Sequence[SignOff] = (),
    zone: tzinfo = UTC,
) -> list[dict[str, Any]]:
    """Cuts and comparisons of live tables. `verdict` of a cut is its headline, the worst of its four parts. `levels`:
    destination → what readers may rely on there, where that is known. `worked`: what people have done about breaks.
    `sign_offs`: of published versions. `zone`: in which moments are written; those of `evidence` stand as they are
    stored."""
    of_takes = by_take(sign_offs)
    signed = [_sign_off_json(of_takes.get((one.run_id, one.destination))) for one in cuts]
    found = [
        {**_cut_json(one, worked), "sign_off": sign, **_level_json(one, one.found, levels)}
        for one, sign in zip(cuts, signed, strict=True)
    ]
    found += [{**_live_json(one, worked), **_level_json(one, one, levels)} for one in live]
    held = [
        {
            **one,
            "tolerances": [
                _tolerance_json(of, zone) for of in worked.tolerances if of.destination == one["destination"]
            ],
        }
        for one in found
    ]
    return [_written(one, zone) for one in held]


def to_text(
    cuts: Sequence[CutState],
    *,
    levels: Mapping[str, str],
    worked: Worked = NOTHING,
    sign_offs: Sequence[SignOff] = (),
    zone: tzinfo = UTC,
) -> str:
    made = to_json(cuts, (), levels=levels, worked=worked, sign_offs=sign_offs, zone=zone)
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _sign_off_json(one: SignOff | None) -> dict[str, Any] | None:
    """None of what was not published."""
    if one is None:
        return None
    acts = [
        {"act": act.act.value, "who": act.who, "at": act.at, "reason": act.reason,
         "verdict": act.verdict.value, "verdict_hash": act.verdict_hash}
        for act in one.acts
    ]  # fmt: skip
    return {
        "state": one.state.value,
        "waits": one.waits,
        "version": one.version,
        "in_force": one.in_force,
        "prepared_by": one.preparer,
        "prepared_at": one.prepared_at,
        "prepared_reason": one.prepared_reason,
        "verdict_hash": one.verdict_hash,
        "acts": acts,
        "late": one.late_in_words,
        "left_out": one.left_out_in_words,
    }


def log_json(entry: Entry | None, head: tuple[int, str] | None) -> dict[str, Any] | None:
    """What the log of acts has of a verdict: its newest entry whole, so that its hashes can be made again, and the
    number and hash of the newest entry of all. None where no entry names the verdict, or it was made unreadable."""
    try:
        content = json.loads(entry.content) if entry else None
    except ValueError:
        content = None
    if entry is None or head is None or content is None:
        return None
    return {
        "number": entry.number,
        "hash": entry.hash,
        "previous": entry.previous,
        "content": content,
        "verdict_hash": content["document"].get("hash"),
        "head": {"number": head[0], "hash": head[1]},
    }


def _cut_json(state: CutState, worked: Worked) -> dict[str, Any]:
    decision, publication, failure = state.decision, state.publication, state.failure
    return {
        "run": state.run_id,
        "sync": state.sync,
        "destination": state.destination,
        "scope": "cut",
        "business_date": state.business_date.isoformat(),
        "verdict": state.headline.value,
        "recorded": state.recorded and _recorded_json(state.recorded),
        "partial": state.partial,
        "compared": state.compared.value,
        "checks": {
            "outcome": state.checks.word,
            "checked": state.checks.checked,
            "failed": [
                {"on": one.on, "type": one.type, "why": one.why, "detail": one.detail, "rows": one.rows,
                 "keys": list(one.keys)}
                for one in state.checks.failed
            ],
            "notes": list(state.checks.notes),
        },
        "decision": decision and _decision_json(decision.to_json()),
        "publication": {
            "version": publication.version, "at": publication.at, "in_force": publication.in_force,
            "in_force_is": publication.in_force_is.value if publication.in_force else None,
            "why_not": publication.why_not,
        },
        "failure": failure and {
            "task": failure.task, "error": failure.error, "cure": failure.cure, "at": failure.at,
        },
        **_compared_json(state.found, worked),
    }  # fmt: skip


def _recorded_json(one: Recorded) -> dict[str, Any]:
    """`warning`: null where all is stored as the log of acts has it."""
    return {
        "warning": NOT_AS_RECORDED if one.faults else None,
        "faults": list(one.faults),
        "verdict_hash": one.verdict_hash,
    }


def _decision_json(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, **{name: datetime.fromisoformat(said[name]) for name in ("since", "at") if said[name]}}


def _level_json(
    of: CutState | Reconciliation, found: Reconciliation | None, levels: Mapping[str, str]
) -> dict[str, Any]:
    """`level_achieved`: for all tables of the sync, and of a cut where it was published. `level_not_shown`: the tables
    of which nothing was compared."""
    left_out = not_shown(found)
    is_partial = bool(left_out) or (of.partial if isinstance(of, CutState) else of.is_partial)
    # Of what nobody sees, nobody can rely on anything.
    is_shown = not isinstance(of, CutState) or of.publication.version is not None
    achieved = is_achieved(found)
    return {
        "level": level_of(found, levels.get(of.destination)),
        "level_achieved": None if achieved is None else achieved and is_shown and not is_partial,
        "level_not_shown": list(left_out),
    }


def _live_json(found: Reconciliation, worked: Worked) -> dict[str, Any]:
    return {
        "run": found.run_id,
        "sync": found.sync,
        "destination": found.destination,
        "scope": "live",
        # It is about its own moment. What caused it is another matter.
        "business_date": None,
        "after_cut_of": found.business_date.isoformat() if found.business_date else None,
        "verdict": of_live(found).value,
        "recorded": found.recorded and _recorded_json(found.recorded),
        "partial": found.is_partial,
        **_compared_json(found, worked),
    }


def _compared_json(found: Reconciliation | None, worked: Worked) -> dict[str, Any]:
    if found is None:
        return {"position": None, "position_time": None, "mode": "", "evidence": {}, "ageing": [], "tables": []}
    return {
        "position": str(found.position) if found.position else None,
        "position_time": found.position_time,
        "mode": found.mode,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "evidence": dict(found.evidence),
        "ageing": [_aged_json(one, worked) for one in worked.ages_of(found)],
        "tables": [_table_json(found, table, worked) for table in found.tables],
    }


def _table_json(found: Reconciliation, table: TableVerdict, worked: Worked) -> dict[str, Any]:
    return {
        "table": table.table,
        "verdict": table.verdict.value,
        "reason": table.reason,
        "source_rows": table.source_rows,
        "destination_rows": table.destination_rows,
        "control_totals": [
            {
                "column": total.column,
                "group": list(total.group),
                "source_rows": total.source_rows,
                "destination_rows": total.destination_rows,
                "source_sum": _text(total.source_sum),
                "destination_sum": _text(total.destination_sum),
                "difference": _text(differences.of_sums(total)),
                "is_equal": total.is_equal,
            }
            for total in table.totals
        ],
        "breaks_total": table.breaks_total,
        "breaks": [
            {
                "id": (name := break_id(found.sync, found.destination, one)),
                "type": one.type.value,
                "key": one.key,
                "source": one.source,
                "destination": one.destination,
                **({"beside": one.beside} if one.beside else {}),
                "work": _work_json(worked.works.get(name)),
                "third_witness": witness_to_json(one.witness),
            }
            for one in table.breaks
        ],
    }


def _aged_json(one: Aged, worked: Worked) -> dict[str, Any]:
    return {
        "age": band_in_words(one.band, worked.bounds),
        "breaks": one.breaks,
        "open": one.open,
        "carried_forward": one.carried,
        "amounts": [
            {
                "table": of.table,
                "column": of.column,
                "group": None if of.group is None else list(of.group),
                "breaks": of.breaks,
                "without_signs": None if of.group is None else str(of.gross),
            }
            for of in one.amounts
        ],
    }


def _tolerance_json(one: Tolerance, zone: tzinfo) -> dict[str, Any]:
    return {
        "number": one.number,
        "table": one.table,
        "column": one.column,
        "amount": str(one.amount),
        "why": one.why,
        "made_by": one.made_by,
        "approved_by": one.approved_by,
        "last_day": one.last_day(zone).isoformat(),
        "expires_at": one.expires_at,
        "absorbed_so_far": str(one.absorbed),
    }


def _work_json(known: Work | None) -> dict[str, Any] | None:
    if known is None:
        return None
    return {
        "state": known.state.value,
        "since": known.since,
        "owner": known.owner or None,
        "reason": known.reason or None,
        "first_at": known.first_at,
        "tolerance": known.tolerance,
        "absorbed": _text(known.absorbed),
    }


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _written(value: Any, zone: tzinfo) -> Any:
    """With each moment as ISO 8601, in the zone and with its offset."""
    match value:
        case datetime():
            return value.astimezone(zone).isoformat()
        case Mapping():
            return {name: _written(one, zone) for name, one in value.items()}
        case list():
            return [_written(one, zone) for one in value]
    return value
