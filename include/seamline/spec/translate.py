"""pydantic's errors as faults with file, line, path, cause and cure."""

import re
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from seamline.spec.document import Document, Path_
from seamline.spec.faults import UNKNOWN_KEY, guess, meant, nearest, redacted

# Keys that would hold a secret, also as the end of a longer one. A declaration names connections; secrets live there.
_SECRET_KEYS = frozenset(
    {
        "password",
        "passwd",
        "pwd",
        "secret",
        "secret_key",
        "token",
        "api_key",
        "apikey",
        "auth",
        "pass",
        "passphrase",
        "pw",
        "access_key",
        "private_key",
        "credentials",
    }
)
_SECRET_ENDS = tuple(f"_{key}" for key in sorted(_SECRET_KEYS))
# Keys that the design has and this version has not.
NOT_YET = {
    ("sync", "stream.engine"): "one engine exists so far, the span loop; leave it out",
}
_WANTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of keys",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def add_faults(document: Document, error: ValidationError, model: type[BaseModel]) -> None:
    """Put everything that pydantic found into the document's faults, but one mistake once."""
    details = error.errors(include_url=False, include_context=True)
    # A misspelt key is one mistake, although it is unknown and leaves the right one missing.
    misspelt = {
        (*detail["loc"][:-1], nearest(str(detail["loc"][-1]), _keys_at(detail["loc"][:-1], model)))
        for detail in details
        if detail["type"] == "extra_forbidden"
    }
    for detail in details:
        path = detail["loc"]
        is_misspelt = detail["type"] == "missing" and path in misspelt
        # pydantic counts only the right items; the wrong ones are reported on their own.
        is_counted_wrong = detail["type"] == "too_short" and bool(detail["input"])
        cause, cure = _say(document, detail, path, model)
        if not is_misspelt and not is_counted_wrong and not _is_reported(document, path, cause):
            document.fault(path, cause, cure or _described(path, model))


def _is_reported(document: Document, path: Path_, cause: str) -> bool:
    """That a key is unknown says nothing of its value, nor the value of the key."""
    causes = document.causes(path)
    return cause in causes if cause == UNKNOWN_KEY else any(other != UNKNOWN_KEY for other in causes)


def take_as_meant(document: Document, error: ValidationError, model: type[BaseModel]) -> bool:
    """Rename keys that are misspelt to what was meant, so that what else is wrong of their values is found too. False
    where there are none. Only where no other key can have been meant: its value is shown in messages."""
    renamed = False
    for detail in error.errors(include_url=False):
        *around, key = detail["loc"] or ("",)
        if detail["type"] != "extra_forbidden":
            continue
        right = meant(str(key), _keys_at(tuple(around), model))
        if right and right not in document.value(tuple(around)):
            document.rename((*around, key), right)
            renamed = True
    return renamed


def add_empty_faults(document: Document) -> None:
    """A key without a value is a mistake more often than a wish for the default."""
    for path, text in document.plain.items():
        if text in ("", "~", "null", "Null", "NULL"):
            document.fault(path, "has no value", "Leave the key out where the default is meant")


def add_secret_faults(document: Document) -> None:
    """Find secrets wherever they stand, and take them out, so that no later message can repeat one."""
    _strip_secrets(document, document.data, ())


def _strip_secrets(document: Document, value: Any, path: Path_) -> None:
    if isinstance(value, dict):
        for key in list(value):
            place = (*path, key)
            if _is_secret(str(key)):
                document.fault(
                    place,
                    "secrets do not belong in a declaration",
                    "Put it into the connection that this file names, and take it out of the file's history",
                )
                del value[key]
                for inside in [known for known in document.plain if known[: len(place)] == place]:
                    del document.plain[inside]
            else:
                _strip_secrets(document, value[key], place)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _strip_secrets(document, item, (*path, number))


def _is_secret(key: str) -> bool:
    """Also in capitals, with dashes or a hump: `apiKey`, `CAPTURE-PASSWORD`."""
    folded = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().replace("-", "_")
    return folded in _SECRET_KEYS or folded.endswith(_SECRET_ENDS)


def _say(document: Document, detail: ErrorDetails, path: Path_, model: type[BaseModel]) -> tuple[str, str]:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, model)
    if kind == "missing":
        return "is missing", _described(path, model)
    if kind == "literal_error":
        allowed = [str(value) for value in _literals(path, model)]
        return f"must be one of {', '.join(allowed)}, got {redacted(detail['input'])}", _near(
            str(detail["input"]), allowed
        )
    if kind == "value_error":
        return str(detail["ctx"]["error"]), ""
    if kind in _WANTED:
        got = document.plain.get(document.as_written(path)) or redacted(detail["input"])
        return f"{_WANTED[kind]}, got {got}", _quoted(document, kind, path, model)
    if kind == "string_pattern_mismatch":
        return f"{redacted(detail['input'])} does not fit", _described(path, model)
    if kind == "too_short":
        return "must not be empty", _described(path, model)
    return (
        f"{_bounds(detail) or detail['msg'].replace('Input should', 'should')}, got {redacted(detail['input'])}",
        _described(path, model),
    )


def _bounds(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    found = ((words, str(context[bound]).removesuffix(".0")) for bound, words in _BOUNDS.items() if bound in context)
    return " and ".join(f"must be {words} {limit}" for words, limit in found)


def _unknown_key(path: Path_, model: type[BaseModel]) -> tuple[str, str]:
    key = str(path[-1])
    not_yet = NOT_YET.get((next(iter(model.model_fields)), ".".join(map(str, path))))
    if not_yet:
        return "not supported yet", f"{not_yet[0].upper()}{not_yet[1:]}"
    return UNKNOWN_KEY, guess(key, _keys_at(path[:-1], model))


def _keys_at(path: Path_, model: type[BaseModel]) -> list[str]:
    around = _model_at(path, model)
    return [field.alias or name for name, field in around.model_fields.items()] if around else []


def _described(path: Path_, model: type[BaseModel]) -> str:
    field = _field_at(path, model)
    return (field.description or "") if field else ""


def _literals(path: Path_, model: type[BaseModel]) -> tuple[Any, ...]:
    field = _field_at(path, model)
    parts = _parts(field.annotation) if field else []
    return next((get_args(part) for part in parts if get_origin(part) is Literal), ())


def _field_at(path: Path_, model: type[BaseModel]) -> FieldInfo | None:
    """The field at a place; of an item of a list that of the list."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    around = _model_at(path[:-1], model) if path else None
    fields = around.model_fields.items() if around else ()
    return next((field for name, field in fields if path[-1] in (name, field.alias)), None)


def _model_at(path: Path_, model: type[BaseModel]) -> type[BaseModel] | None:
    """The model that describes the mapping at a place of the document."""
    at: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        if at is None:
            return None
        fields = {field.alias or name: field for name, field in at.model_fields.items()}
        found = fields.get(part)
        inner = (
            [p for p in _parts(found.annotation) if isinstance(p, type) and issubclass(p, BaseModel)] if found else []
        )
        at = inner[0] if inner else None
    return at


def _parts(annotation: Any) -> list[Any]:
    """The types an annotation is made of: members of a union, items of a tuple, and itself."""
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        return [part for member in get_args(annotation) for part in _parts(member)]
    return [annotation]


def _near(wrong: str, known: list[str]) -> str:
    cure = guess(wrong, known)
    return cure if cure.startswith("Did you mean") else ""


def _quoted(document: Document, kind: str, path: Path_, model: type[BaseModel]) -> str:
    """YAML reads `7:00` as 420 and `no` as false: quotes keep what was written, where that is right."""
    plain, field = document.plain.get(document.as_written(path)), _field_at(path, model)
    if kind != "string_type" or plain is None or field is None:
        return ""
    wanted: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    if isinstance(path[-1], int):
        wanted = get_args(field.annotation)[0]
    try:
        TypeAdapter(wanted).validate_python(plain)
    except ValidationError as error:
        return f"Quotes alone do not mend it: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
    return f'Write it in quotes: "{plain}"'
