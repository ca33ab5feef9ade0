"""A marker as the row that every kind of source stores: its table has the columns id, kind, payload and at."""

import json

from seamline.domain.errors import InvariantViolated
from seamline.ports import Marker

_ID_LENGTH_MAX = 64
_KIND_LENGTH_MAX = 16


def marker_row(marker: Marker) -> tuple[str, str, str]:
    """(id, kind, payload) of the row; InvariantViolated where the table cannot hold it."""
    if len(marker.id) > _ID_LENGTH_MAX or len(marker.kind) > _KIND_LENGTH_MAX:
        raise InvariantViolated(f"marker {marker.id!r} of kind {marker.kind!r} does not fit its table")
    return marker.id, marker.kind, json.dumps(marker.payload, sort_keys=True, ensure_ascii=False)
