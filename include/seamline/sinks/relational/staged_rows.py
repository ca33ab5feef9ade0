"""Staged rows are counted and digested once more before they are published: hours may lie between, or a signature."""

from seamline.domain.catalogue import Table
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import GateFailed
from seamline.domain.position import Position
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.places import relation
from seamline.sinks.relational.read_view import RelationalReadView
from seamline.sinks.relational.session import Session, execute, query, rolled_back


def require_as_compared(
    session: Session,
    place: tuple[str, str],
    *,
    rows: int,
    digest: KeyedDigest | None,
    definition: Table | None,
    position: Position,
    dialect: Dialect,
) -> None:
    """GateFailed unless the table holds what was compared at `position`. Without digest or definition it only counts.

    In a transaction of its own; may be repeated.
    """
    with rolled_back(session):
        if digest is None or definition is None:
            ((held,),) = query(session, f"SELECT COUNT(*) FROM {relation(*place)}")
            is_same = held == rows
        else:
            found = _digest(session, place, definition, digest, position, dialect)
            held, is_same = found.rows, found == (digest.whole or digest.digest)
    if not is_same:
        what = "other values" if held == rows else f"{held} rows"
        raise GateFailed(
            f"the staged table {relation(*place)} now holds {what}; {rows} rows were compared with the source at"
            f" {position}",
            hint="nothing was published. Somebody changed it, or its server came back without it: clear the task that"
            " staged it",
            table=definition.name if definition else "",
            position=str(position),
        )


def _digest(
    session: Session,
    place: tuple[str, str],
    definition: Table,
    compared: KeyedDigest,
    position: Position,
    dialect: Dialect,
) -> SegmentDigest:
    """As `compared` was made: of every column where it has them all."""
    execute(session, "SET SESSION optimizer_switch = 'derived_merge=off'")
    view = RelationalReadView(
        session, tables=[definition], places={definition.name: place}, position=position, dialect=dialect
    )
    if compared.whole is not None:
        return view.whole_digest(definition.name, run_key=compared.run_key)
    return sum(view.digests(Segment(definition.name), run_key=compared.run_key).values(), SegmentDigest())
