"""What a run has found, as a page for docs/reliability."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seamline.adapters.failpoints import NAMES, Mode
from tests.checkout import day_and_commit
from tests.dags.places import PLACES
from tests.fault.real.bank_under_fire import Case

LISTED_MAX = 20
# Those of DAGs are met by the layer `dags`.
WANTED = NAMES - PLACES.keys()


@dataclass(frozen=True, slots=True)
class End:
    """What was compared when the writers of a source had stopped."""

    source: str
    attempts: int
    committed: int
    transactions: int
    commits: int
    anomalies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trouble:
    """`what` happened at no failpoint; `recovery_s` since it was over."""

    source: str
    what: str
    recovery_s: float
    commits: int
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A stream that was made wrong, and which checks have said so. It counts for none of the other figures."""

    source: str
    bug: str
    caught_by: tuple[str, ...]
    commits: int


@dataclass
class Tally:
    """`seed` gives the writers' choices and the hits; the servers' own timing is not repeated by it."""

    seed: str
    cases: list[Case] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    planted: list[PlantedBug] = field(default_factory=list)
    # What was proven beside them, in words → how often.
    proven: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)


def written(tally: Tally, *, tests: int, failed: int) -> str:
    return "\n".join(_lines(tally, tests, failed)) + "\n"


def _lines(tally: Tally, tests: int, failed: int) -> Iterator[str]:
    all_of_them: list[Case | Trouble] = [*tally.cases, *tally.troubles]
    commits = sum(case.commits for case in all_of_them)
    violations = [said for case in all_of_them for said in case.violations] + [
        said for end in tally.ends for said in end.anomalies
    ]
    slowest = max((case.recovery_s for case in all_of_them), default=0.0)
    reached = {case.failpoint for case in tally.cases}
    yield "# T1: every failpoint, in every mode"
    yield ""
    yield (
        f"{day_and_commit()}, seed {tally.seed}, {_minutes(tally)} min: "
        f"{len(tally.cases)} cases at {len(reached)} of {len(WANTED)} failpoints, {commits} commits checked, "
        f"{len(violations)} violations; {failed} of {tests} tests failed; slowest recovery {slowest:.1f} s."
    )
    yield ""
    yield "Written by `./seamline test fault`; what is checked, and how to run it: [README](README.md)."
    yield ""
    yield "| mode | cases | failpoints | commits checked | slowest recovery, s | violations |"
    yield "|---|---|---|---|---|---|"
    for mode in Mode:
        yield _summary_of(mode, [case for case in tally.cases if case.mode is mode])
    yield ""
    yield "| source | failpoint | mode | at hit | back after s | commits checked | transfers checked | violations |"
    yield "|---|---|---|---|---|---|---|---|"
    for case in tally.cases:
        yield (
            f"| {case.source} | `{case.failpoint}` | {case.mode} | {case.hit} | {case.recovery_s:.1f} | "
            f"{case.commits} | {case.transfers} | {len(case.violations)} |"
        )
    yield ""
    yield "At the end, writers stopped: destination = source, and the history of all clients against it."
    yield ""
    yield "| source | client attempts | committed | transactions in the log | commits of the destination | anomalies |"
    yield "|---|---|---|---|---|---|"
    for end in tally.ends:
        yield (
            f"| {end.source} | {end.attempts} | {end.committed} | {end.transactions} | {end.commits} |"
            f" {len(end.anomalies)} |"
        )
    yield from _list_of_troubles(tally.troubles)
    yield from _list_of_planted(tally.planted)
    if tally.proven:
        yield ""
        yield "Beside them:"
        yield ""
        yield from (f"- {what}: {times} times" if times > 1 else f"- {what}" for what, times in tally.proven.items())
    met = {(case.failpoint, case.mode) for case in tally.cases}
    left = [f"- `{name}`: {mode}" for name in sorted(WANTED) for mode in Mode if (name, mode) not in met]
    if left:
        yield ""
        yield "Not met in this run:"
        yield ""
        yield from left
    if violations:
        yield ""
        yield "Violations:"
        yield ""
        yield from (f"- {said}" for said in violations[:LISTED_MAX])
        if len(violations) > LISTED_MAX:
            yield f"- and {len(violations) - LISTED_MAX} more"


def _list_of_troubles(troubles: Sequence[Trouble]) -> Iterator[str]:
    if not troubles:
        return
    yield ""
    yield "At no failpoint. A full disk is so to its last byte for a while, then has room, and its server is started."
    yield ""
    yield "| source | what | back after s | commits checked | violations |"
    yield "|---|---|---|---|---|"
    for one in troubles:
        yield f"| {one.source} | {one.what} | {one.recovery_s:.1f} | {one.commits} | {len(one.violations)} |"


def _list_of_planted(bugs: Sequence[PlantedBug]) -> Iterator[str]:
    if not bugs:
        return
    yield ""
    yield "Streams with a planted bug, which the checks must find. They count for no figure above."
    yield ""
    yield "| source | bug | found by | commits checked |"
    yield "|---|---|---|---|"
    for one in bugs:
        checks = ", ".join(one.caught_by) or "nothing"
        yield f"| {one.source} | {one.bug.replace('_', ' ')} | {checks} | {one.commits} |"


def _summary_of(mode: Mode, cases: Sequence[Case]) -> str:
    commits, violations = sum(case.commits for case in cases), sum(len(case.violations) for case in cases)
    slowest = max((case.recovery_s for case in cases), default=0.0)
    reached = len({case.failpoint for case in cases})
    return f"| {mode} | {len(cases)} | {reached} of {len(WANTED)} | {commits} | {slowest:.1f} | {violations} |"


def _minutes(tally: Tally) -> str:
    return f"{(time.monotonic() - tally.began) / 60:.0f}"
