"""What is wrong with declarations: all of it at once, each with its place and cure."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamline.domain.errors import ConfigError

UNKNOWN_KEY = "unknown key"
IN_DECLARATIONS = "in the declarations"
OR_AT_SERVERS = "in the declarations or at their servers"
_MAY_HOLD_A_SECRET = re.compile(r"://|@|(pass|pwd|secret|token)\w*\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake. `path` is the place inside the document, as `nightly.cut_off`; "" is the whole document."""

    file: Path
    line: int
    path: str
    cause: str
    cure: str = ""

    @property
    def place_and_cause(self) -> str:
        cause = f"{self.path}: {self.cause}" if self.path else self.cause
        return f"{shown(self.file)}:{self.line}  {cause}"

    def __str__(self) -> str:
        if not self.cure:
            return self.place_and_cause
        return f"{self.place_and_cause}{'' if self.cause.endswith('?') else '.'} {self.cure}"


class DeclarationsInvalid(ConfigError):
    """At least one declaration is wrong, or what servers deny of it; `faults` are in the order of files and lines."""

    def __init__(self, faults: Iterable[Fault], *, where: str = IN_DECLARATIONS, hint: str = "") -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (str(fault.file), fault.line, fault.path, fault.cause)))
        count = "1 mistake" if len(self.faults) == 1 else f"{len(self.faults)} mistakes"
        lines = "\n".join(f"  {fault}" for fault in self.faults)
        super().__init__(f"{count} {where}\n{lines}", hint=hint)


def shown(file: Path) -> str:
    """The path of a file as a person sees it from here."""
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def redacted(value: object) -> str:
    """A wrong value as a message may repeat it: no address and nothing else that may hold a password, and no list."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    return "a text that is not shown" if _MAY_HOLD_A_SECRET.search(str(value)) else repr(value)


def meant(wrong: str, known: Sequence[str]) -> str:
    """The known name that was certainly meant, but for a slip of the hand; "" where that is not certain."""
    return _close(wrong, known, 0.82)


def nearest(wrong: str, known: Sequence[str]) -> str:
    """The known name that was probably meant; "" where none is near."""
    # In a word of two or three letters one wrong letter is already half of it.
    return _close(wrong, known, 0.5 if len(wrong) <= 3 else 0.6)


def _close(wrong: str, known: Sequence[str], cutoff: float) -> str:
    folded = {_folded(name): name for name in known}
    near = difflib.get_close_matches(_folded(wrong), list(folded), n=1, cutoff=cutoff)
    return folded[near[0]] if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def guess(wrong: str, known: Sequence[str]) -> str:
    """A cure for a name that is not known: the nearest known one, else all of them."""
    near = nearest(wrong, known)
    if near:
        return f"Did you mean `{near}`?"
    return f"Known: {', '.join(sorted(known))}" if known else ""
