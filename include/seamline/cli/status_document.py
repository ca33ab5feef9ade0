"""What `status` has seen, for a program: the facts of its text."""

from datetime import UTC, datetime, tzinfo
from typing import Any

from seamline.cli.answer import error_document
from seamline.cli.cuts import missing_document
from seamline.cli.seen import Seen, SyncSeen
from seamline.platform.store import Alarm
from seamline.report import documents
from seamline.sync.stream_state import StreamState, log_kept_document


def whole(seen: Seen) -> dict[str, Any]:
    """`syncs`, `alarms` with those that are over, and `undeclared`: streams that are declared no more."""
    alarms = [_alarm(one, seen) for one in (*seen.streams.alarms, *seen.streams.over)]
    over = {(one.kind, one.subject) for one in seen.streams.over}
    return {
        "syncs": [_sync(one, seen) for one in seen.syncs],
        "undeclared": [
            {
                "stream": str(mark.stream),
                "since": mark.since,
                "has_ended": not mark.is_wanted,
            }
            for mark in seen.streams.undeclared
        ],
        "alarms": [{**one, "is_over": (one["kind"], one["subject"]) in over} for one in alarms],
    }


def _sync(one: SyncSeen, seen: Seen) -> dict[str, Any]:
    """Cuts and live tables as `report --format json` has them."""
    return {
        "sync": one.name,
        "state": one.state,
        "word": one.word,
        "is_wrong": one.is_wrong,
        "notes": one.notes,
        "mistakes": error_document(one.mistakes)["error"]["faults"] if one.mistakes else [],
        "streams": [_stream(state, seen, one.zone) for state in one.streams],
        "missing": missing_document(one.missing, datetime.now(UTC), one.zone),
        "verdicts": documents.to_json(one.cuts, one.live, levels={}, sign_offs=one.sign_offs, zone=one.zone),
        "unsigned": [
            {"destination": sign.destination, "business_date": sign.business_date, "version": sign.version}
            for sign in one.sign_offs
            if sign.waits
        ],
    }


def _stream(state: StreamState, seen: Seen, zone: tzinfo) -> dict[str, Any]:
    return {
        "destination": state.stream.destination,
        "word": state.word,
        "is_green": state.is_green,
        "why": state.why,
        "may_restart": state.may_restart,
        "since": state.since.astimezone(zone) if state.since else None,
        "lag_s": state.lag_s,
        "records_behind": state.records_behind,
        "findings": seen.streams.findings.get(state.stream, 0),
        "log_kept": log_kept_document(state),
    }


def _alarm(one: Alarm, seen: Seen) -> dict[str, Any]:
    since = one.raised_at.astimezone(seen.zone_of(one))
    return {"kind": one.kind, "subject": one.subject, "message": one.message, "since": since}
