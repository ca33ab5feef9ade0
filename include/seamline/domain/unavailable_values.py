"""Unavailable values: the log left them out of a row image because the update had not changed them (PostgreSQL's
TOAST).

The capture writes UNAVAILABLE in their place. The value is taken from the image before it, or else from the row as the
destination holds it.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

UNAVAILABLE = "seamline:unchanged-value-left-out:5f0c9b1e7a"
# In a column of bytes it comes as they do.
UNAVAILABLE_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()
# In one of pairs (hstore) it is the only pair.
UNAVAILABLE_PAIR = f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'
STAND_INS = (UNAVAILABLE, UNAVAILABLE_BYTES, UNAVAILABLE_PAIR)
_MARKS = (UNAVAILABLE.encode(), UNAVAILABLE_BYTES.encode())


def may_lack_values(image: bytes) -> bool:
    """Quick, and True also for an image that holds the words inside of a value of its own."""
    return _MARKS[0] in image or _MARKS[1] in image


def lacks_values(image: bytes) -> bool:
    return may_lack_values(image) and any(value in STAND_INS for value in json.loads(image).values())


def filled_row(row: Mapping[str, Any], older: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its left out values taken from `older`, where that has them."""
    return {name: older[name] if value in STAND_INS and name in older else value for name, value in row.items()}


def filled(image: bytes, older: bytes) -> bytes:
    """As `filled_row`, for raw images."""
    row = filled_row(json.loads(image), json.loads(older))
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()
