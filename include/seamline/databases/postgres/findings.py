"""What a stream met that its log did not promise, as its commits kept it in the destination."""

from contextlib import closing

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger import IS_FROM_BEFORE_A_LOAD
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan

_LISTED = 1_000


def read_findings(
    session: Session, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """The first findings of each table that were not reported yet, and how far all that there are go (`after` where
    there are none). Those from before their table was put in place again are over."""
    with translated("read the findings of the stream"):
        try:
            newest = session.execute(
                "SELECT max(finding_id), to_char(max(found_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
                " FROM seamline.finding WHERE stream = %s",
                (str(stream),),
            ).fetchone()
            rows = session.execute(
                "SELECT table_name, kind, row_key, log_offset FROM (SELECT *, row_number() OVER"
                " (PARTITION BY table_name ORDER BY finding_id) AS place FROM seamline.finding"
                # As JSON, because a destination of an earlier version has no such column until something is published.
                " AS f WHERE stream = %s AND (finding_id > %s OR found_at > nullif(%s, '')::timestamptz)"
                " AND to_jsonb(f) ->> 'over_at' IS NULL"
                f" AND (to_jsonb(f) ? 'over_at' OR NOT {IS_FROM_BEFORE_A_LOAD})) AS found"
                " WHERE place <= %s ORDER BY finding_id",
                (str(stream), after.number, after.kept_at, _LISTED),
            ).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return (), after
    reported = FindingsReported(*newest) if newest and newest[0] is not None else after
    return tuple(Finding(*row) for row in rows), reported


def findings_of(
    destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """As `read_findings`, in a session of its own."""
    with closing(open_session(resolve(destination.connection), application_name="seamline findings")) as session:
        return read_findings(session, stream, after=after)
