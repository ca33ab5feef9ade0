"""What is wrong with declarations: all of it at once, each with its place and cure."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamline.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake. `path` is the place inside the document, as `nightly.cut_off`; "" is the whole document."""

    file: Path
    line: int
    path: str
    cause: str
    cure: str = ""

    def __str__(self) -> str:
        place = f"{shown(self.file)}:{self.line}"
        cause = f"{self.path}: {self.cause}" if self.path else self.cause
        return f"{place}  {cause}. {self.cure}" if self.cure else f"{place}  {cause}"


class DeclarationsInvalid(ConfigError):
    """At least one declaration is wrong; `faults` are in the order of files and lines."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (str(fault.file), fault.line, fault.path, fault.cause)))
        count = "1 mistake" if len(self.faults) == 1 else f"{len(self.faults)} mistakes"
        lines = "\n".join(f"  {fault}" for fault in self.faults)
        super().__init__(f"{count} in the declarations\n{lines}")


def shown(file: Path) -> str:
    """The path of a file as a person sees it from here."""
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def meant(wrong: str, known: Sequence[str]) -> str:
    """The known name that was certainly meant, but for a slip of the hand; "" where that is not certain."""
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.82)
    return near[0] if near else ""


def nearest(wrong: str, known: Sequence[str]) -> str:
    """The known name that was probably meant; "" where none is near."""
    # In a word of two or three letters one wrong letter is already half of it.
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.5 if len(wrong) <= 3 else 0.6)
    return near[0] if near else ""


def guess(wrong: str, known: Sequence[str]) -> str:
    """A cure for a name that is not known: the nearest known one, else all of them."""
    near = nearest(wrong, known)
    if near:
        return f"Did you mean `{near}`?"
    return f"Known: {', '.join(sorted(known))}" if known else ""
