"""What a soak has done so far, fault by fault, in a file that a later run goes on from; and the page made of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LISTED_MAX = 20


@dataclass(frozen=True, slots=True)
class Begun:
    """A run of one source, and the code that it tries."""

    source: str
    commit: str


@dataclass(frozen=True, slots=True)
class Done:
    """One fault and what became of it. `took_s`: with its checks, until the next one could begin."""

    source: str
    name: str
    lasted_s: float
    recovery_s: float
    took_s: float
    commits: int
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """What was compared when the writers of a source had stopped, as each run ends that nobody breaks off. `transfers`:
    committed ones."""

    source: str
    attempts: int
    transfers: int
    transactions: int
    commits: int
    anomalies: tuple[str, ...]


@dataclass
class Journal:
    """The first line holds the seed, each further one a begin, a fault or an end."""

    file: Path
    seed: str
    runs: list[Begun] = field(default_factory=list)
    faults: list[Done] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)

    def violations(self, source: str) -> list[str]:
        """Whatever speaks against the soak of this source; that no run came to its end does."""
        ends = [end for end in self.ends if end.source == source]
        return [
            *(said for fault in self.of(source) for said in fault.violations),
            *(said for end in ends for said in end.anomalies),
            *([] if ends else [f"{source}: no run came to its end, where all is compared"]),
        ]

    def of(self, source: str) -> list[Done]:
        return [one for one in self.faults if one.source == source]

    def add(self, one: Begun | Done | Ended) -> None:
        self._keep(one)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({type(one).__name__: asdict(one)}) + "\n")

    def _keep(self, one: Begun | Done | Ended) -> None:
        match one:
            case Begun():
                self.runs.append(one)
            case Done():
                self.faults.append(one)
            case Ended():
                self.ends.append(one)

    @classmethod
    def open(cls, file: Path, *, seed: str) -> "Journal":
        """The one that lies there, whose seed then counts, or a new one."""
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"seed": seed}) + "\n", encoding="utf-8")
            return cls(file, seed)
        first, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        journal = cls(file, first["seed"])
        for line in lines:
            journal._keep(_read(line))
        return journal


def _read(line: Mapping[str, Mapping[str, Any]]) -> Begun | Done | Ended:
    ((kind, content),) = line.items()
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    (made,) = (made for made in (Begun, Done, Ended) if made.__name__ == kind)
    return made(**fields)


def page(journal: Journal) -> str:
    return "\n".join(_page(journal)) + "\n"


def _page(journal: Journal) -> Iterator[str]:
    faults, ends = journal.faults, journal.ends
    violations = [said for source in sorted({one.source for one in faults}) for said in journal.violations(source)]
    yield "# T2: a soak of random faults"
    yield ""
    yield (
        f"{datetime.now(UTC).date()}, commit {', '.join(dict.fromkeys(run.commit for run in journal.runs))}, "
        f"seed {journal.seed}: {len(faults)} faults of "
        f"{len({fault.name for fault in faults})} kinds in {sum(fault.took_s for fault in faults) / 3600:.1f} h, "
        f"{sum(end.transfers for end in ends):,} transfers committed, "
        f"{sum(end.commits for end in ends):,} commits of the destination checked, each of them, "
        f"**{len(violations)} violations**; slowest recovery "
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
    if broken_off := len(journal.runs) - len(ends):
        yield ""
        yield f"{broken_off} of {len(journal.runs)} runs were broken off before that: of them the faults count alone."
    yield ""
    yield "| source | attempts of clients | transfers | transactions of the log | commits checked | anomalies |"
    yield "|---|---|---|---|---|---|"
    for end in ends:
        yield (
            f"| {end.source} | {end.attempts:,} | {end.transfers:,} | {end.transactions:,} | {end.commits:,} | "
            f"{len(end.anomalies)} |"
        )
    if violations:
        yield ""
        yield "Violations:"
        yield ""
        yield from (f"- {said}" for said in violations[:LISTED_MAX])


def _row(name: str, faults: Sequence[Done]) -> str:
    lasted, back = max(one.lasted_s for one in faults), max(one.recovery_s for one in faults)
    commits, violations = sum(one.commits for one in faults), sum(len(one.violations) for one in faults)
    return f"| {name} | {len(faults)} | {lasted:.0f} | {back:.1f} | {commits:,} | {violations} |"
