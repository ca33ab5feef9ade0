"""Values to and from the columns of the platform database."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from seamline.domain.digest import SegmentDigest, digest_from_json, digest_to_json
from seamline.domain.ledger import StreamId
from seamline.domain.log_kept import log_kept_from_json
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.runs import Cut, Receipt, Reconciliation, RunKind, RunState, Scope
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.domain.witness import witness_from_json
from seamline.plan.document import plan_from_json
from seamline.plan.model import Run
from seamline.ports import StreamReport

_ANSWERED_FOR = ("stream", "age_s", "still_s", "since", "kept", "kept_at")


def position_column(position: Position | None) -> Jsonb | None:
    return None if position is None else Jsonb(position_to_json(position))


def position_of(document: dict[str, Any] | None) -> Position | None:
    return None if document is None else position_from_json(document)


def known_position(document: dict[str, Any]) -> Position:
    return position_from_json(document)


def digest_column(digest: SegmentDigest | None) -> Jsonb | None:
    return None if digest is None else Jsonb(digest_to_json(digest))


def digest_of(document: dict[str, str] | None) -> SegmentDigest | None:
    return None if document is None else digest_from_json(document)


def run_of(row: Mapping[str, Any]) -> Run:
    return Run(
        run_id=row["run_id"],
        sync=row["sync"],
        kind=RunKind(row["kind"]),
        business_date=row["business_date"],
        plan=plan_from_json(row["plan_json"]),
        state=RunState(row["state"]),
        result=row["result"],
        started_at=row["started_at"],
    )


def receipt_of(row: Mapping[str, Any]) -> Receipt:
    return Receipt(
        table=row["table_name"],
        attempt=row["attempt"],
        staged_as=row["staged_as"],
        rows=row["rows"],
        digest=digest_of(row["digest"]),
        position=position_of(row["position"]),
    )


def signature_document(row: Mapping[str, Any]) -> dict[str, object]:
    """What the entry of a stored signature says beside its subject and its person."""
    return {key: row[key] for key in ("at", "number", "reason", "verdict", "verdict_hash", "version")}


def cut_of(row: Mapping[str, Any]) -> Cut:
    return Cut(
        sync=row["sync"],
        destination=row["destination"],
        business_date=row["business_date"],
        version=row["version"],
        run_id=row["run_id"],
        position=known_position(row["position"]),
        as_of=row["as_of"],
        tables=tuple(row["tables"]),
        verdict=Verdict(row["verdict"]),
        partial=row["partial"],
        saved_at=row["saved_at"],
    )


def total_of(row: Mapping[str, Any]) -> ControlTotal:
    return ControlTotal(
        table=row["table_name"],
        column=row["column_name"],
        group=tuple(row["group_values"]),
        source_rows=row["source_rows"],
        destination_rows=row["destination_rows"],
        source_sum=row["source_sum"],
        destination_sum=row["destination_sum"],
    )


def break_of(row: Mapping[str, Any]) -> Break:
    return Break(
        table=row["table_name"],
        type=BreakType(row["type"]),
        key=row["key"],
        source=row["source_values"],
        destination=row["destination_values"],
        identity=row["break_id"],
        witness=witness_from_json(row["witness"]),
        beside=row["beside"],
    )


def table_verdict_of(row: Mapping[str, Any], totals: Sequence[ControlTotal], breaks: Sequence[Break]) -> TableVerdict:
    return TableVerdict(
        table=row["table_name"],
        verdict=Verdict(row["verdict"]),
        reason=row["reason"],
        position=row["position"],
        source_rows=row["source_rows"],
        destination_rows=row["destination_rows"],
        totals=tuple(totals),
        breaks=tuple(breaks),
        breaks_total=row["breaks_total"],
    )


def reconciliation_of(row: Mapping[str, Any], tables: Sequence[TableVerdict]) -> Reconciliation:
    return Reconciliation(
        run_id=row["run_id"],
        sync=row["sync"],
        destination=row["destination"],
        scope=Scope(row["scope"]),
        business_date=row["business_date"],
        position=position_of(row["position"]),
        position_time=row["position_time"],
        mode=row["mode"],
        verdict=Verdict(row["verdict"]),
        tables=tuple(tables),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        evidence=row["evidence"],
    )


def report_to_json(report: StreamReport) -> str:
    """Without the fields that the database itself answers for."""
    document = dataclasses.asdict(report)
    for name in _ANSWERED_FOR:
        del document[name]
    document["units"] = document.pop("transactions")  # the name that older hosts read and write
    document["position"] = None if report.position is None else position_to_json(report.position)
    return json.dumps(document)


def report_of(
    stream: StreamId,
    document: dict[str, Any],
    *,
    age_s: float,
    still_s: float,
    since: datetime | None,
    kept: dict[str, Any] | None = None,
) -> StreamReport:
    known = {field.name for field in dataclasses.fields(StreamReport)} - {*_ANSWERED_FOR, "position"}
    # A report of a newer or older host may have other fields.
    fields = {name: value for name, value in document.items() if name in known}
    fields["transactions"] = document.get("units", 0)
    position = position_of(document.get("position"))
    report = StreamReport(stream=stream, age_s=age_s, still_s=still_s, since=since, position=position, **fields)
    if kept is None:
        return report
    return dataclasses.replace(
        report, kept=log_kept_from_json(kept), kept_at=datetime.fromtimestamp(float(kept["at"]), UTC)
    )
