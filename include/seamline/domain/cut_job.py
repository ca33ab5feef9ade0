"""What a `transform:` of a derived table is in a plan: a query, or a function of frames, that is computed from the
tables of each cut. Spark analyses it at preflight, and again at each cut: the plan holds its text alone."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CutJob:
    """`tables`: names of the sync's tables that the text names, parked ones too. It may read these and no others, and
    is left out of a cut that lacks one of them."""

    file: str
    text: str
    tables: tuple[str, ...]

    @property
    def is_function(self) -> bool:
        """Whether the text is a Python function of frames, and no query."""
        return self.file.endswith(".py")


def job_from_json(document: Mapping[str, Any]) -> CutJob:
    """Of what `dataclasses.asdict` makes of it."""
    return CutJob(document["file"], document["text"], tuple(document["tables"]))


def named_in(text: str, tables: Iterable[str]) -> tuple[str, ...]:
    """Those of the tables whose names stand in the text as whole words, in comments too."""
    return tuple(one for one in tables if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text))
