"""What a soak has done so far, fault by fault, in a file that a later run goes on from; and the page made of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TOLD_MAX = 20


@dataclass(frozen=True, slots=True)
class Done:
    """One fault and what became of it. `took_s`: with its checks, until the next one could begin."""

    source: str
    name: str
    lasted_s: float
    recovery_s: float
    took_s: float
    commits: int
    transfers: int
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """What was compared when the writers of a source had stopped: each run ends so."""

    source: str
    attempts: int
    units: int
    commits: int
    anomalies: tuple[str, ...]


@dataclass
class Journal:
    """The first line tells seed and commit, each further one a fault or an end."""

    file: Path
    seed: str
    commit: str
    faults: list[Done] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)

    def of(self, source: str) -> list[Done]:
        return [one for one in self.faults if one.source == source]

    def add(self, one: Done | Ended) -> None:
        self._keep(one)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({type(one).__name__: asdict(one)}) + "\n")

    def _keep(self, one: Done | Ended) -> None:
        if isinstance(one, Done):
            self.faults.append(one)
        else:
            self.ends.append(one)

    @classmethod
    def open(cls, file: Path, *, seed: str, commit: str) -> "Journal":
        """The one that lies there, whose seed then counts, or a new one."""
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"seed": seed, "commit": commit}) + "\n", encoding="utf-8")
            return cls(file, seed, commit)
        first, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        journal = cls(file, first["seed"], first["commit"])
        for line in lines:
            journal._keep(_read(line))
        return journal


def _read(line: Mapping[str, Mapping[str, Any]]) -> Done | Ended:
    ((kind, told),) = line.items()
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return Done(**fields) if kind == Done.__name__ else Ended(**fields)


def page(journal: Journal) -> str:
    return "\n".join(_page(journal)) + "\n"


def _page(journal: Journal) -> Iterator[str]:
    faults, ends = journal.faults, journal.ends
    violations = [said for fault in faults for said in fault.violations]
    anomalies = [said for end in ends for said in end.anomalies]
    yield "# T2: a soak of random faults"
    yield ""
    yield (
        f"{datetime.now(UTC).date()}, commit {journal.commit}, seed {journal.seed}: {len(faults)} faults of "
        f"{len({fault.name for fault in faults})} kinds in {sum(fault.took_s for fault in faults) / 3600:.1f} h, "
        f"{sum(fault.commits for fault in faults):,} commits checked with "
        f"{sum(fault.transfers for fault in faults):,} transfers, "
        f"**{len(violations) + len(anomalies)} violations**; slowest recovery "
        f"{max((fault.recovery_s for fault in faults), default=0):.0f} s."
    )
    yield ""
    yield "Written by `./seamline test soak`; what is checked, and how to run it: [README](README.md)."
    yield ""
    yield "| fault | times | lasted s, longest | back after s, slowest | commits checked | violations |"
    yield "|---|---|---|---|---|---|"
    for name in sorted({fault.name for fault in faults}):
        yield _row(name, [fault for fault in faults if fault.name == name])
    yield ""
    yield "At the end of each run, writers stopped: destination = source, and the history of all clients against it."
    yield ""
    yield "| source | attempts of clients | units of the log | commits of the destination | anomalies |"
    yield "|---|---|---|---|---|"
    for end in ends:
        yield f"| {end.source} | {end.attempts:,} | {end.units:,} | {end.commits:,} | {len(end.anomalies)} |"
    if violations or anomalies:
        yield ""
        yield "Violations:"
        yield ""
        yield from (f"- {said}" for said in (*violations, *anomalies)[:TOLD_MAX])


def _row(name: str, faults: Sequence[Done]) -> str:
    lasted, back = max(one.lasted_s for one in faults), max(one.recovery_s for one in faults)
    commits, violations = sum(one.commits for one in faults), sum(len(one.violations) for one in faults)
    return f"| {name} | {len(faults)} | {lasted:.0f} | {back:.1f} | {commits:,} | {violations} |"
