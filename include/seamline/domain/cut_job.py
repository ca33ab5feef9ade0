"""What a `transform:` of a derived table is in a plan: a query, or a function of frames, that is computed from the
tables of each cut. Spark analyses it at preflight, and again at each cut: the plan holds its text alone."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# What is in quotes stays: a mark of a comment in there begins none.
_QUOTED = r"""(?P<kept>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)"""
_SQL_COMMENT = re.compile(rf"{_QUOTED}|--[^\n]*|/\*.*?\*/", re.DOTALL)
_PYTHON_COMMENT = re.compile(rf"{_QUOTED}|#[^\n]*", re.DOTALL)


# The driver holds them all: some hundred megabytes of rows of ordinary width.
DERIVED_ROWS_MAX = 2_000_000


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


def named_in(text: str, tables: Iterable[str], *, of: str) -> tuple[str, ...]:
    """Those of the tables whose names stand in the text of this file as whole words, comments left out."""
    comment = _PYTHON_COMMENT if of.endswith(".py") else _SQL_COMMENT
    said = comment.sub(lambda found: found["kept"] or " ", text)
    return tuple(one for one in tables if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", said))
