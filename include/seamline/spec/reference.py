"""Every key of the declarations as a page for people, made from the JSON Schemas: what editors show, at a glance."""

from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """\
# Declarations: every key

Made from the schemas by `./seamline schema`; a test holds it current. Files lie in `include/`, or where
`SEAMLINE_DECLARATIONS` says; the demo's are an example of each. `./seamline validate` lists all mistakes of all files,
with `--online` also what the servers deny; `./seamline explain <sync>` shows every setting with where it comes from. A
declaration names connections by their id and holds no secret: [your own source](../how-to/your-own-database.md).
"""
_FOLDERS = {
    "source": "sources",
    "destination": "destinations",
    "sync": "syncs",
    "expectations": "expectations",
    "calendar": "calendars",
}
_COLUMNS = ("| key | holds | default | |", "|---|---|---|---|")
_WORDS = {
    "object": "keys",
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
}
# Of more values than these an editor shows the list; a table's cell would be a page.
_LISTED_MAX = 12
Schema = Mapping[str, Any]


def reference_text(schemas: Mapping[str, Schema]) -> str:
    """The page, from the JSON Schema of each kind of file."""
    lines = [_HEAD]
    for word, schema in schemas.items():
        lines.append(f"## `include/{_FOLDERS[word]}/<{word}>.yaml`\n")
        definitions = schema.get("$defs", {})
        for one in schema.get("oneOf", [schema]):
            model = _resolved(one, definitions)
            lines += [model["description"], "", *_COLUMNS, *_rows(model, definitions, prefix=""), ""]
    return "\n".join(lines)


def _rows(model: Schema, definitions: Schema, *, prefix: str) -> Iterator[str]:
    required = model.get("required", ())
    for name, field in model["properties"].items():
        resolved = _resolved(field, definitions)
        items = _resolved(resolved["items"], definitions) if resolved.get("type") == "array" else {}
        default = "**needed**" if name in required else _value(field.get("default", resolved.get("default")))
        about = field.get("description") or resolved.get("description", "")
        cells = (f"`{prefix}{name}`", _held(resolved, items, definitions), default, about)
        yield f"| {' | '.join(map(_escaped, cells))} |"
        if "properties" in resolved:
            yield from _rows(resolved, definitions, prefix=f"{prefix}{name}.")
        elif "properties" in items:
            yield from _rows(items, definitions, prefix=f"{prefix}{name}[].")


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    """The schema behind a reference; of alternatives the fullest, for null and a bare name are short forms of it."""
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if forms := schema.get("anyOf") or schema.get("oneOf"):
        return max((_resolved(one, definitions) for one in forms), key=len)
    return schema


def _held(resolved: Schema, items: Schema, definitions: Schema) -> str:
    if "const" in resolved:
        return f"`{resolved['const']}`"
    if len(resolved.get("enum", ())) in range(1, _LISTED_MAX + 1):
        return ", ".join(f"`{one}`" for one in resolved["enum"])
    if resolved.get("type") == "array":
        return f"list of {_held(items, {}, definitions)}"
    if isinstance(one := resolved.get("additionalProperties"), Mapping):
        # One value for all is the short form.
        held = _held(one, {}, definitions)
        return f"{held}, or {held} for each name"
    return _WORDS[resolved["type"]]


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<", "&lt;")


def _value(default: Any) -> str:
    if default in (None, "", [], ()):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
