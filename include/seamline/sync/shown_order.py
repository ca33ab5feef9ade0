"""The order in which a report shows destinations: that of the sync's declaration, whichever of them was compared last.

Those that are not declared any more come behind, by name. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from seamline.domain.ledger import StreamId
from seamline.domain.phrase import joined, phrase
from seamline.sync.stream_state import StreamState


class InDestination(Protocol):
    @property
    def run_id(self) -> str: ...
    @property
    def destination(self) -> str: ...


FoundT = TypeVar("FoundT", bound=InDestination)


def in_order(names: Iterable[str], declared: Sequence[str]) -> list[str]:
    return sorted(names, key=_place(declared))


def by_destination(found: Iterable[FoundT], declared: Sequence[str]) -> list[FoundT]:
    """All that there is of one destination, then of the next."""
    place = _place(declared)
    return sorted(found, key=lambda one: place(one.destination))


def by_run(found: Iterable[FoundT], declared: Sequence[str]) -> list[FoundT]:
    """The runs as they come; of each what it left, by destination."""
    of_runs: dict[str, list[FoundT]] = {}
    for one in found:
        of_runs.setdefault(one.run_id, []).append(one)
    return [one for of_run in of_runs.values() for one in by_destination(of_run, declared)]


def newest_of_date(takes: Sequence[FoundT], declared: Sequence[str]) -> list[FoundT]:
    """What the newest run of a date has left; of another destination that is declared, which that run has left as it
    was, the newest take before. `takes`: of one date, the newest first."""
    of_run = [one for one in takes if one.run_id == takes[0].run_id]
    before: dict[str, FoundT] = {}
    for one in takes:
        if one.destination in declared:
            before.setdefault(one.destination, one)
    return by_destination({**before, **{one.destination: one for one in of_run}}.values(), declared)


def streams_in_order(states: Iterable[StreamState], declared: Sequence[str]) -> list[StreamState]:
    """Without those that have ended because their destination was taken out; of one that has not yet, that it will.
    Of a sync whose file cannot be read, `declared` is empty, and nothing is known."""
    place = _place(declared)
    shown = (one for one in states if one.stream.destination in declared or not one.is_unwanted)
    said = (_taken_out(one) if declared and one.stream.destination not in declared else one for one in shown)
    return sorted(said, key=lambda one: place(one.stream.destination))


def _taken_out(state: StreamState) -> StreamState:
    why = phrase("its destination is taken out of the sync, and it ends within minutes")
    return replace(state, why=joined("; ", [part for part in (why, state.why) if part]))


def by_stream(streams: Iterable[StreamId], declared: Sequence[str]) -> list[StreamId]:
    place = _place(declared)
    return sorted(streams, key=lambda one: place(one.destination))


def _place(declared: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    places = {name: number for number, name in enumerate(declared)}
    return lambda name: (places.get(name, len(places)), name)
