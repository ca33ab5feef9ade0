"""The SQL by which probe rows are written, the same for every kind of source. Pure."""

import re
from collections.abc import Callable, Sequence

from seamline.domain.probe import KEY, Default, Probe, ProbePath

_IN_QUOTES = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_SEQUENCE = re.compile(r"\b(nextval|setval|lastval|currval)\s*\(|\bnext\s+value\s+for\b", re.IGNORECASE)


def default_of(text: str) -> Default:
    """A default as the source prints it. One that draws from a sequence needs an object of others and is no value."""
    is_drawn = _SEQUENCE.search(_IN_QUOTES.sub("", text)) is not None
    return Default(text, "it draws from a sequence" if is_drawn else "")


def transactions(probe: Probe, path: ProbePath, *, place: str, quoted: Callable[[str], str]) -> Sequence[Sequence[str]]:
    """The statements of each transaction of a path. `place`: the probe table as SQL names it."""
    columns = [quoted(name) for name in probe.values]
    listed = ", ".join((quoted(KEY), *columns))
    if path in (ProbePath.BATCH, ProbePath.BATCH_WITH_WORDS):
        copies = [
            f"INSERT INTO {place} ({listed}) SELECT {quoted(KEY)} + {block * probe.rows}, {', '.join(columns)}"
            f" FROM {place} WHERE {quoted(KEY)} <= {probe.rows_of(path)}"
            for block in probe.blocks(path)
        ]
        return [copies] if copies else []
    (block,) = probe.blocks(path)
    first = block * probe.rows + 1
    is_update = path is ProbePath.UPDATE
    inserts = [
        [f"INSERT INTO {place} ({listed}) VALUES ({', '.join((str(first + number), *literals))})"]
        for number, literals in enumerate(probe.literals(ahead=int(is_update)))
    ]
    updates = [
        [f"UPDATE {place} SET {_assigned(columns, literals)} WHERE {quoted(KEY)} = {first + number}"]
        for number, literals in enumerate(probe.literals())
    ]
    return [*inserts, *updates] if is_update else inserts


def _assigned(columns: Sequence[str], literals: Sequence[str]) -> str:
    return ", ".join(f"{column} = {literal}" for column, literal in zip(columns, literals, strict=True))
