"""What stands already where the cuts of a table would stand."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seamline.domain.cut_names import changes_view, current_view, proven_view
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.places import Place, relation
from seamline.sinks.relational.session import Session, query

# What the views of cuts join, whichever sync made them, as the server prints it.
_OF_ALL, _OF_ONE_SYNC = "`.`cut_table` `p`", ("`.`cut_pointer` `p`", "`.`cut_proven` `p`")
_SYNC = re.compile(r"`p`\.`sync` = (?:_utf8mb4)?'([a-z0-9_]+)'")


@dataclass(frozen=True, slots=True)
class Standing:
    """What has a name now. `kind`: BASE TABLE, VIEW or another word of the server's; "" for nothing. The others are of
    a view."""

    kind: str = ""
    definition: str = ""
    security: str = "DEFINER"

    @property
    def sync(self) -> str:
        """Whose cuts the view shows; "" where it is no such view."""
        if self.kind != "VIEW" or not any(name in self.definition for name in _OF_ONE_SYNC):
            return ""
        found = _SYNC.search(self.definition)
        return found[1] if found else ""


def current_place(destination: DestinationPlan, table: str) -> Place:
    return destination.cut_namespace, current_view(table)


def proven_place(destination: DestinationPlan, table: str) -> Place:
    return destination.namespace, proven_view(table)


def changes_place(destination: DestinationPlan, table: str) -> Place:
    return destination.cut_namespace, changes_view(table)


def views_of(destination: DestinationPlan, table: str) -> tuple[Place, Place, Place]:
    """Beside that of all versions."""
    return current_place(destination, table), proven_place(destination, table), changes_place(destination, table)


def standing(session: Session, place: Place) -> Standing:
    rows = query(
        session,
        "SELECT t.table_type, v.view_definition, v.security_type FROM information_schema.tables AS t"
        " LEFT JOIN information_schema.views AS v ON v.table_schema = t.table_schema AND v.table_name = t.table_name"
        " WHERE t.table_schema = %s AND t.table_name = %s",
        place,
    )
    if not rows:
        return Standing()
    kind, definition, security = rows[0]
    return Standing(str(kind), str(definition or ""), str(security or "DEFINER"))


def name_conflicts(
    session: Session, destination: DestinationPlan, *, sync: str, tables: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What is in the way of the cuts of these tables, and how to mend it."""
    for table in tables:
        for place in views_of(destination, table):
            yield from in_place_of_view(place, table, standing(session, place), sync=sync)
        cuts = (destination.cut_namespace, table)
        there = standing(session, cuts)
        if there.kind and not (there.kind == "VIEW" and _OF_ALL in there.definition):
            yield (
                f"{relation(*cuts)} is a {_word(there.kind)}, and the cuts of table {table} need this name for a view",
                f"{_renamed(cuts)}; where it holds the cuts of another table, leave {table} out of the sync",
            )


def in_place_of_view(place: Place, table: str, there: Standing, *, sync: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the table or view that has the name of a cut view of this sync."""
    if not there.kind or there.sync == sync:
        return
    shown = relation(*place)
    need = f"and the cuts of table {table} need this name for a view"
    if there.kind == "BASE TABLE":
        yield (
            f"{shown} is a table, {need}",
            f"let one of the two tables go into a destination with another schema, or leave it out of its sync. Where"
            f" nobody writes {shown}: {_renamed(place)}",
        )
    elif there.sync:
        yield (
            f"{shown} is the view of another sync's cuts, {need}",
            f"where that sync cuts {table} no longer: DROP VIEW {shown}. Rights on the name stay",
        )
    else:
        yield f"{shown} is a {_word(there.kind)} that no sync made, {need}", _renamed(place)


def _renamed(place: Place) -> str:
    return f"RENAME TABLE {relation(*place)} TO …"


def _word(kind: str) -> str:
    return "table" if kind == "BASE TABLE" else kind.lower()
