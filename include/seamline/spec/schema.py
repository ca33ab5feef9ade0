"""JSON Schema of the declarations, for editors (completion and red lines while a file is written) and for people."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seamline.spec.destination import DestinationSpec
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.reference import reference_text
from seamline.spec.source import SourceSpec
from seamline.spec.sync import SyncSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODELS: dict[str, Any] = {
    "source": SourceSpec,
    "destination": DestinationSpec,
    "sync": SyncSpec,
    "expectations": ExpectationsSpec,
}


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of each kind of file, by its first key."""
    return {
        word: {"$schema": _DIALECT, **TypeAdapter(model).json_schema(by_alias=True)} for word, model in _MODELS.items()
    }


def made_texts() -> dict[str, str]:
    """The text of every file that is made from the models, by its path in the checkout."""
    made = schemas()
    texts = {
        f"schemas/{word}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for word, schema in made.items()
    }
    return texts | {"docs/reference/declarations.md": reference_text(made)}


def stale_files(root: Path) -> list[str]:
    """Those that are missing or differ from the models."""
    return [
        name
        for name, text in made_texts().items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]


def write_files(root: Path) -> list[str]:
    """Write every one; returns those that changed."""
    stale = stale_files(root)
    for name in stale:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(made_texts()[name], encoding="utf-8")
    return stale
