"""Staged rows are counted and digested once more before they are published: hours may lie between, or a signature."""

from seamline.databases.postgres.client import Session
from seamline.databases.postgres.read import SESSION_SETTINGS, PostgresReadView, Relation
from seamline.domain.catalogue import Table
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import GateFailed
from seamline.domain.position import Position


def require_as_compared(
    session: Session,
    relation: Relation,
    *,
    rows: int,
    digest: KeyedDigest | None,
    definition: Table | None,
    position: Position,
) -> None:
    """GateFailed unless the relation holds what was compared at `position`. Without digest or definition it only
    counts.

    In a transaction of its own; may be repeated.
    """
    with session.transaction():
        if digest is None or definition is None:
            row = session.execute(f"SELECT count(*) FROM {relation}").fetchone()
            held = int(row[0]) if row else 0
            is_same = held == rows
        else:
            found = _digest(session, relation, definition, digest, position)
            held, is_same = found.rows, found == (digest.whole or digest.digest)
    if not is_same:
        what = "other values" if held == rows else f"{held} rows"
        raise GateFailed(
            f"the staged table {relation} now holds {what}; {rows} rows were compared with the source at {position}",
            hint="nothing was published. Somebody changed it, or its server came back without it: clear the task that"
            " staged it",
            table=definition.name if definition else "",
            position=str(position),
        )


def _digest(
    session: Session, relation: Relation, definition: Table, compared: KeyedDigest, position: Position
) -> SegmentDigest:
    """As `compared` was made: of every column where it has them all."""
    for setting in SESSION_SETTINGS:
        session.execute(setting.replace("SET ", "SET LOCAL ", 1))
    view = PostgresReadView(session, tables=[definition], relations={definition.name: relation}, position=position)
    if compared.whole is not None:
        return view.whole_digest(definition.name, run_key=compared.run_key)
    return sum(view.digests(Segment(definition.name), run_key=compared.run_key).values(), SegmentDigest())
