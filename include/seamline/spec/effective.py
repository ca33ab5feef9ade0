"""Every setting of a sync with the value that holds, and whether somebody wrote it or it is the default."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from seamline.spec.fields import duration_text


class Origin(StrEnum):
    DECLARED = "declared"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """`plain`: for a program, a number or a switch as such, all else as its text."""

    path: str
    value: str
    origin: Origin
    plain: str | int | float


def effective_settings(spec: BaseModel) -> tuple[EffectiveSetting, ...]:
    """In the order of the model; lists of entries are one setting each."""
    return tuple(_walk(spec, "", Origin.DECLARED))


def _walk(spec: BaseModel, prefix: str, around: Origin) -> Iterator[EffectiveSetting]:
    for name, field in type(spec).model_fields.items():
        path = f"{prefix}{field.alias or name}"
        is_written = around is Origin.DECLARED and name in spec.model_fields_set
        origin = Origin.DECLARED if is_written else Origin.DEFAULT
        value = getattr(spec, name)
        if isinstance(value, BaseModel):
            yield from _walk(value, f"{path}.", origin)
        else:
            text = _text(value)
            yield EffectiveSetting(path, text, origin, value if isinstance(value, int | float) else text)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, BaseModel):
        return _entry(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_text(item) for item in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _entry(entry: BaseModel) -> str:
    """An entry of a list: its name alone where that says all."""
    fields = {
        field.alias or name: getattr(entry, name)
        for name, field in type(entry).model_fields.items()
        if getattr(entry, name) not in (None, ())
    }
    if set(fields) == {"name"}:
        return str(fields["name"])
    return "{" + ", ".join(f"{key}: {_nested(value)}" for key, value in fields.items()) + "}"


def _nested(value: Any) -> str:
    return f"[{_text(value)}]" if isinstance(value, tuple) else _text(value)
