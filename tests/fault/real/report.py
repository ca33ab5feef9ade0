"""What a run has found, as a page for docs/reliability."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from seamline.adapters.failpoints import NAMES
from tests.fault.real.bank_under_fire import Kill

TOLD_MAX = 20


@dataclass(frozen=True, slots=True)
class End:
    """What was compared when the writers of a source had stopped."""

    source: str
    attempts: int
    committed: int
    units: int
    commits: int
    anomalies: tuple[str, ...]


@dataclass
class Tally:
    """`seed` gives the writers' choices and the hits; the servers' own timing is not repeated by it."""

    seed: str
    kills: list[Kill] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)


def written(tally: Tally, *, tests: int, failed: int) -> str:
    return "\n".join(_lines(tally, tests, failed)) + "\n"


def _lines(tally: Tally, tests: int, failed: int) -> Iterator[str]:
    commits = sum(kill.commits for kill in tally.kills)
    violations = [said for kill in tally.kills for said in kill.violations] + [
        said for end in tally.ends for said in end.anomalies
    ]
    slowest = max((kill.recovery_s for kill in tally.kills), default=0.0)
    reached = {kill.failpoint for kill in tally.kills}
    yield "# T1: every failpoint, killed"
    yield ""
    yield (
        f"{datetime.now(UTC).date()}, commit {commit_of_checkout()}, seed {tally.seed}, {_minutes(tally)} min: "
        f"{len(tally.kills)} kills at {len(reached)} of {len(NAMES)} failpoints, {commits} commits checked, "
        f"{len(violations)} violations; {failed} of {tests} tests failed; slowest recovery {slowest:.1f} s."
    )
    yield ""
    yield "Written by `./seamline test fault`; what is checked, and how to run it: [README](README.md)."
    yield ""
    yield "| source | failpoint | killed at hit | back after s | commits checked | transfers checked | violations |"
    yield "|---|---|---|---|---|---|---|"
    for kill in tally.kills:
        yield (
            f"| {kill.source} | `{kill.failpoint}` | {kill.hit} | {kill.recovery_s:.1f} | {kill.commits} | "
            f"{kill.transfers} | {len(kill.violations)} |"
        )
    yield ""
    yield "At the end, writers stopped: destination = source, and the history of all clients against it."
    yield ""
    yield "| source | attempts of clients | committed | units of the log | commits of the destination | anomalies |"
    yield "|---|---|---|---|---|---|"
    for end in tally.ends:
        yield (
            f"| {end.source} | {end.attempts} | {end.committed} | {end.units} | {end.commits} | {len(end.anomalies)} |"
        )
    left = sorted(NAMES - reached)
    if left:
        yield ""
        yield "Not killed in this run:"
        yield ""
        yield from (f"- `{name}`" for name in left)
    if violations:
        yield ""
        yield "Violations:"
        yield ""
        yield from (f"- {said}" for said in violations[:TOLD_MAX])
        if len(violations) > TOLD_MAX:
            yield f"- and {len(violations) - TOLD_MAX} more"


def _minutes(tally: Tally) -> str:
    return f"{(time.monotonic() - tally.began) / 60:.0f}"


def commit_of_checkout() -> str:
    # `-dirty`: with changes that no commit holds.
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"
