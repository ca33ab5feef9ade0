"""JSON Schema of the declarations, for editors (completion and red lines while a file is written) and for people."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter

from seamline.spec.calendar import CalendarSpec
from seamline.spec.consistency import matrix_page
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.fields import Declared
from seamline.spec.kinds import destination_models, source_models
from seamline.spec.reference import reference_text
from seamline.spec.sync import SyncSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema of each kind of file, by its first key."""
    models: dict[str, Any] = {
        "source": _one_of(source_models()),
        "destination": _one_of(destination_models()),
        "sync": SyncSpec,
        "expectations": ExpectationsSpec,
        "calendar": CalendarSpec,
    }
    return {
        word: {"$schema": _DIALECT, **TypeAdapter(model).json_schema(by_alias=True)} for word, model in models.items()
    }


def _one_of(models: Mapping[str, type[Declared]]) -> Any:
    """One model where there is one kind; else the one that `kind` names."""
    kinds = tuple(models.values())
    return kinds[0] if len(kinds) == 1 else Annotated[Union[kinds], Field(discriminator="kind")]  # noqa: UP007


def made_texts() -> dict[str, str]:
    """The text of every file that is made from the models, by its path in the checkout."""
    made = schemas()
    texts = {
        f"schemas/{word}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for word, schema in made.items()
    }
    return texts | {
        "docs/reference/declarations.md": reference_text(made),
        "docs/reference/consistency.md": matrix_page(),
    }


def stale_files(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Those that are missing or differ."""
    return [
        name
        for name, text in texts.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]


def write_files(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Write every one; returns those that changed."""
    stale = stale_files(root, texts)
    for name in stale:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(texts[name], encoding="utf-8")
    return stale
