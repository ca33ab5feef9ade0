"""JSON of others, of which nothing is lost while it is read. Pure."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn


def parsed(content: str | bytes) -> Any:
    """Numbers with a point or an exponent are `Decimal`. ValueError: it is no JSON, or an object has a name twice, of
    which most readers drop one."""
    try:
        return _DECODER.decode(content) if isinstance(content, str) else json.loads(content, **_AS_WRITTEN)
    except RecursionError as exc:
        raise ValueError("it is nested too deep") from exc


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def object_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook`. ValueError: a name stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice in one object")
    return found


_AS_WRITTEN: dict[str, Any] = {
    "parse_float": Decimal,
    "parse_constant": _no_number,
    "object_pairs_hook": object_of,
}
_DECODER = json.JSONDecoder(**_AS_WRITTEN)
