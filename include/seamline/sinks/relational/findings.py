"""What a stream met that its log did not promise, as its commits kept it in the destination."""

import pymysql

from seamline.adapters.connections import resolve
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.ledger import is_missing
from seamline.sinks.relational.places import ledger_place
from seamline.sinks.relational.session import Session, close, open_session, query, translated

_LISTED = 1_000
_KEPT_AT = "DATE_FORMAT({time}, '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ')"


def read_findings(
    session: Session, at: str, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """The first findings of each table that were not reported yet, and how far all that there are go (`after` where
    there are none). Those from before their table was put in place again are over."""
    kept_at = _KEPT_AT.format(time="found_at")
    with translated("read the findings of the stream"):
        try:
            newest = query(
                session,
                f"SELECT MAX(finding_id), {_KEPT_AT.format(time='MAX(found_at)')} FROM {at}.finding WHERE stream = %s",
                (str(stream),),
            )
            rows = query(
                session,
                "SELECT table_name, kind, row_key, log_offset FROM (SELECT *, ROW_NUMBER() OVER"
                f" (PARTITION BY table_name ORDER BY finding_id) AS place FROM {at}.finding WHERE stream = %s"
                f" AND (finding_id > %s OR (%s <> '' AND {kept_at} > %s)) AND over_at IS NULL) AS found"
                " WHERE place <= %s ORDER BY finding_id",
                (str(stream), after.number, after.kept_at, after.kept_at, _LISTED),
            )
        except pymysql.err.MySQLError as exc:
            if is_missing(exc):
                return (), after
            raise
    reported = FindingsReported(*newest[0]) if newest[0][0] is not None else after
    return tuple(Finding(*row) for row in rows), reported


def findings_of(
    destination: DestinationPlan, stream: StreamId, dialect: Dialect, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """As `read_findings`, in a session of its own."""
    session = open_session(resolve(destination.connection), dialect)
    try:
        return read_findings(session, ledger_place(destination), stream, after=after)
    finally:
        close(session)
