"""What a source's catalogue was at a place of its log, short enough to travel in a marker (ADR 37)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position, position_from_json, position_to_json

# The field of a heartbeat's payload that holds them.
_FIELD = "catalogue"


@dataclass(frozen=True, slots=True)
class CatalogueFingerprints:
    """A fingerprint per table. Anything that is done to the table changes it.

    Everything that the log holds up to `through` was made before the catalogue was read for these fingerprints.
    """

    through: Position
    tables: Mapping[str, str]

    def to_payload(self) -> dict[str, Any]:
        return {_FIELD: {"through": position_to_json(self.through), "tables": dict(self.tables)}}


def fingerprints_in(payload: Any) -> CatalogueFingerprints | None:
    """The inverse of `to_payload`; None of a payload that has none, or that says what nobody understands."""
    carried: Any = payload.get(_FIELD) if isinstance(payload, dict) else None
    try:
        through, tables = carried["through"], carried["tables"]
        return CatalogueFingerprints(position_from_json(through), {str(name): str(tables[name]) for name in tables})
    except (TypeError, KeyError, AttributeError, InvariantViolated):
        return None
