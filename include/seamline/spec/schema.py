"""JSON Schema of the declarations, for editors: completion and red lines while a file is written."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seamline.spec.destination import DestinationSpec
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.source import SourceSpec
from seamline.spec.sync import SyncSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODELS: dict[str, Any] = {
    "source": SourceSpec,
    "destination": DestinationSpec,
    "sync": SyncSpec,
    "expectations": ExpectationsSpec,
}


def schema_texts() -> dict[str, str]:
    """The text of every schema file by its file name."""
    texts = {}
    for word, model in _MODELS.items():
        schema = {"$schema": _DIALECT, **TypeAdapter(model).json_schema(by_alias=True)}
        texts[f"{word}.schema.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return texts


def stale_schemas(folder: Path) -> list[str]:
    """Names of the schema files in `folder` that are missing or differ from the models."""
    return [
        name
        for name, text in schema_texts().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema file; returns those that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    stale = stale_schemas(folder)
    for name in stale:
        (folder / name).write_text(schema_texts()[name], encoding="utf-8")
    return [folder / name for name in stale]
