"""What readers of a destination may rely on, by kinds: what can be had, and why not. `validate` refuses by these very
rules, so the matrix of all kinds says what it would say.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product

from seamline.domain.staged_cut import CutSource
from seamline.spec.kinds import (
    cut_source,
    destination_models,
    keeps_keyless,
    level_of,
    level_of_cuts,
    may_repeat,
    powers_lacking,
    source_models,
)
from seamline.spec.source import NO_LOG

GUARANTEES = ("exactly_once", "at_least_once")
MATRIX_HEAD = ("source", "destination", "guarantee", "tables", "what readers may rely on")
_CUTS = ("nightly",)


@dataclass(frozen=True, slots=True)
class Case:
    """A table with or without a key, from a kind of source into a kind of destination. `has_log`: somebody reads the
    source's log; without it there are nights and no streams."""

    source: str
    has_log: bool
    destination: str
    is_keyed: bool
    guarantee: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """`what` goes behind the destination's name. `cure`: what can be had instead."""

    what: str
    cure: str


def guarantee_refusal(destination: str, guarantee: str) -> Refusal | None:
    given = destination_models()[destination].guarantees
    if guarantee in given:
        return None
    return Refusal(f"cannot give {guarantee}", f"It gives {', '.join(sorted(given))}")


def keyless_refusal(destination: str) -> Refusal | None:
    """Of a table without a key."""
    if keeps_keyless(destination):
        return None
    return Refusal("keeps no table without a primary key", "Give it a primary key at the source, or park it")


def unlogged_refusal(destination: str) -> Refusal | None:
    """Of a source whose log nobody reads."""
    models = destination_models()
    fit = [other for other in models if cut_source(other) is not CutSource.LIVE and _CUTS not in powers_lacking(other)]
    cure = f"Use a destination of kind {', '.join(fit)}"
    if cut_source(destination) is CutSource.LIVE:
        return Refusal("makes its cuts of live tables, and there is no log by which to keep any", cure)
    if _CUTS in powers_lacking(destination):
        return Refusal("holds no cuts, and there is no log by which to keep live tables", cure)
    return None


def refusal(case: Case) -> Refusal | None:
    """Why it cannot be had; None where it can."""
    found = guarantee_refusal(case.destination, case.guarantee)
    if not case.has_log:
        found = found or unlogged_refusal(case.destination)
    if not case.is_keyed:
        found = found or keyless_refusal(case.destination)
    return found


def outcome(case: Case) -> str:
    """For people: the level that is achieved, or `refused` and why."""
    refused = refusal(case)
    if refused is not None:
        return f"refused: {refused.what}"
    if not case.has_log:
        return level_of_cuts(case.destination)
    return level_of(case.destination, case.guarantee, source=case.source)


def cases() -> Iterator[Case]:
    """Every one of the installed kinds."""
    models = source_models()
    sources = [(name, True) for name, model in models.items() if model.reads_log(None)]
    sources += [(name, False) for name, model in models.items() if not model.reads_log(NO_LOG)]
    for guarantee, (source, has_log) in product(GUARANTEES, sources):
        for destination, is_keyed in product(destination_models(), (True, False)):
            yield Case(source, has_log, destination, is_keyed, guarantee)


def matrix_lines() -> list[tuple[str, str, str, str, str]]:
    """Sources, destination, guarantee, tables and outcome; what has one outcome is one line."""
    found: dict[tuple[str, bool, str, bool], list[tuple[str, str]]] = {}
    for case in cases():
        place = (case.destination, case.has_log, outcome(case), case.is_keyed)
        found.setdefault(place, []).append((_source(case), case.guarantee))
    lines = [(place, _sets(pairs)) for place, pairs in sorted(found.items(), key=_order)]
    made = []
    for (destination, _, said, sources, guarantees), group in groupby(lines, key=lambda one: (*one[0][:3], *one[1])):
        keyed = [place[3] for place, _ in group]
        tables = "all" if len(keyed) == 2 else "with a key" if keyed[0] else "without a key"
        made.append((sources, destination, guarantees, tables, said))
    return made


def matrix_text() -> str:
    """As a terminal shows it."""
    lines = [MATRIX_HEAD, *matrix_lines()]
    widths = [max(len(line[place]) for line in lines) for place in range(len(MATRIX_HEAD) - 1)]
    return "".join(
        "  ".join([*(part.ljust(width) for part, width in zip(line[:-1], widths, strict=True)), line[-1]]) + "\n"
        for line in lines
    )


def matrix_page() -> str:
    """docs/reference/consistency.md."""
    found = {name: who for name in source_models() if (who := may_repeat(name))}
    repeats = "".join(_REPEATS.format(name=name, who=who) for name, who in found.items())
    lines = [f"| {' | '.join(MATRIX_HEAD)} |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(line)} |" for line in matrix_lines()]
    return _PAGE + repeats + "\n".join(lines) + "\n"


def _source(case: Case) -> str:
    has_choice = source_models()[case.source].reads_log(None) and not case.has_log
    return f"{case.source} (log: none)" if has_choice else case.source


def _sets(pairs: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Sources and guarantees, in words. All of the one go with all of the other: no rule knows both."""
    sources, guarantees = zip(*pairs, strict=True)
    return ", ".join(dict.fromkeys(sources)), ", ".join(dict.fromkeys(guarantees))


def _order(one: tuple[tuple[str, bool, str, bool], object]) -> tuple[str, bool, str, bool]:
    destination, has_log, said, is_keyed = one[0]
    return destination, not has_log, said, not is_keyed


_PAGE = """\
# What readers may rely on

`./seamline explain --matrix` prints this for the kinds that are installed, and `./seamline schema` writes it here.
Each line comes of what the kinds say of themselves; `validate` refuses by the same rules, with file, line and what can
be had instead.

`guarantee` is the author's word for a sync. What is achieved is the destination's, and is in every report and export.
Sources with a log stream into live tables and make cuts; with `log: none` there are cuts alone, and the level is that
of a publish. `./seamline explain <sync>` prints the level of each of its destinations.

"""
_REPEATS = """\
Of `{name}`: {who}.
Each message counts once, and what it repeats is a change like any other: a row with a key ends in the same state, and
a row without a key is there once more, in every destination
([ADR 111](../adr/0111-what-a-topic-repeats-is-a-change.md)).

"""
