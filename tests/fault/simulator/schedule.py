"""A seeded schedule of processes that share one thread: who goes on, who dies and who sleeps is decided at each step.

Actors are greenlets. A process is one or more actors that die together. The same seed gives the same schedule.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from seamline.domain.errors import SeamlineError, TransientError

STEPS_MAX = 20_000


class Violation(AssertionError):
    """What must never be seen was seen. `check` names the invariant."""

    def __init__(self, check: str, said: str) -> None:
        super().__init__(f"{check}: {said}")
        self.check = check


class EndedEarly(Exception):
    """No violation: the product does right, in a way that the checks behind it cannot follow. The seed ends there and
    counts as this `case`."""

    def __init__(self, case: str) -> None:
        super().__init__(case)
        self.case = case


class Crash(BaseException):
    """The process is gone: nothing of its code may catch this."""


@dataclass(slots=True, eq=False)
class Process:
    """`on_end` learns how its main actor ended: None, or the error."""

    name: str
    on_end: Callable[["Process", SeamlineError | Crash | None], None] = lambda process, error: None
    is_dead: bool = False
    may_crash: bool = True
    sleeps_until: int = 0
    want_number: int = 0
    has_begun: bool = False
    epoch: int = 0
    carries: frozenset[str] = frozenset()


class Actor(greenlet):  # type: ignore[misc]
    """`is_in_flight`: its request has left the process and reaches the server whatever becomes of the sender."""

    def __init__(self, process: Process, work: Callable[[], None]) -> None:
        super().__init__(work)
        self.process = process
        self.is_in_flight = False


@dataclass(slots=True)
class Odds:
    """How likely each kind of trouble is at one step."""

    crash: float = 0.0
    transient: float = 0.0
    sleep: float = 0.0
    lost_answer: float = 0.0
    repeat: float = 0.0
    switch: float = 0.5


@dataclass(slots=True)
class Schedule:
    """`quiet` ends all trouble. `tally` counts what was met, by name."""

    dice: random.Random
    odds: Odds
    tally: Counter[str]
    steps: int = 0
    _actors: list[Actor] = field(default_factory=list)
    _hub: greenlet = field(default_factory=getcurrent)

    def quiet(self) -> None:
        self.odds = Odds()
        for actor in self._actors:
            actor.process.sleeps_until = 0

    # ---- from inside of actors --------------------------------------------------------------------------------------

    def step(self, place: str, *, is_network: bool = False) -> None:
        """Something may happen here: another actor goes on, this process dies or sleeps, the network fails."""
        process = self._process_now()
        self._die_perhaps(process, place)
        if is_network and self.dice.random() < self.odds.transient:
            self.tally["transient"] += 1
            raise TransientError(f"the schedule has broken the connection at {place}")
        if process.has_begun and self.dice.random() < self.odds.sleep:
            self.tally["sleep"] += 1
            process.sleeps_until = self.steps + self.dice.randint(20, 400)
            self.wait()
        elif self.dice.random() < self.odds.switch:
            self.wait()

    def inside(self, place: str) -> None:
        """A step in the middle of a server's transaction: its lock keeps all others out."""
        self._die_perhaps(self._process_now(), place)

    def wait(self) -> None:
        """Let others go on."""
        process = self._process_now()
        self._hub.switch()
        if process.is_dead:
            raise Crash

    def send(self) -> None:
        """The request leaves the process. It arrives after its sender's death too, or not at all."""
        actor = getcurrent()
        process = self._process_now()
        actor.is_in_flight = True
        while self.dice.random() < 0.5:
            self._hub.switch()
        actor.is_in_flight = False
        if process.is_dead:
            if self.dice.random() < 0.3:
                raise Crash
            self.tally["late commit of a dead process"] += 1

    def _process_now(self) -> Process:
        actor = getcurrent()
        assert isinstance(actor, Actor), "only actors take steps"
        if actor.process.is_dead:
            raise Crash
        return actor.process

    def _die_perhaps(self, process: Process, place: str) -> None:
        self.steps += 1
        if process.may_crash and self.dice.random() < self.odds.crash:
            self.tally["crash"] += 1
            self.tally[f"crash at {place}"] += 1
            process.is_dead = True
            raise Crash

    # ---- from outside -----------------------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Callable[[], object]) -> Actor:
        """The main actor of a process; its end is the end of the process."""

        def life() -> None:
            error: SeamlineError | Crash | None = None
            try:
                work()
            except (SeamlineError, Crash) as raised:
                error = raised
            process.is_dead = True
            process.on_end(process, error)

        return self.spawn_within(process, life)

    def spawn_within(self, process: Process, work: Callable[[], None]) -> Actor:
        actor = Actor(process, work)
        actor.parent = self._hub
        self._actors.append(actor)
        return actor

    def run(self, until: Callable[[], bool], *, each: Callable[[], None] = lambda: None, what: str) -> None:
        """Let actors go on, one at a time, until it is so."""
        turns = 0
        while not until():
            turns += 1
            if turns > STEPS_MAX:
                raise Violation("I10", f"{what}: not within {STEPS_MAX} turns")
            each()
            self._actors = [actor for actor in self._actors if not actor.dead]
            awake = [a for a in self._actors if a.is_in_flight or a.process.sleeps_until <= self.steps]
            if awake:
                self.dice.choice(awake).switch()
            else:
                self.steps += 10

    def end(self) -> None:
        for actor in self._actors:
            actor.process.is_dead = True
            actor.process.on_end = lambda process, error: None
            while not actor.dead and actor:
                actor.throw(Crash)
        self._actors.clear()


class Committer:
    """What the stream takes for its thread pool: the commit is another actor of the same process."""

    schedule: Schedule

    def __init__(self, workers: int, *, thread_name_prefix: str = "") -> None:
        actor = getcurrent()
        assert isinstance(actor, Actor)
        self._process = actor.process
        self._answers: list[Answer] = []

    def submit(self, work: Callable[[], object]) -> "Answer":
        answer = Answer(self.schedule)

        def life() -> None:
            try:
                answer.value = work()
            except (SeamlineError, Crash) as error:
                answer.error = error
            answer.is_done = True

        self.schedule.spawn_within(self._process, life)
        self.schedule.tally["commit in another thread"] += 1
        self._answers.append(answer)
        return answer

    def shutdown(self, *, wait: bool) -> None:
        while wait and not self._process.is_dead and not all(answer.is_done for answer in self._answers):
            self.schedule.wait()


class Answer:
    """The part of a Future that the stream uses."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.is_done = False
        self.value: object = None
        self.error: SeamlineError | Crash | None = None

    def done(self) -> bool:
        return self.is_done

    def result(self) -> object:
        while not self.is_done:
            self._schedule.wait()
        if self.error is not None:
            raise self.error
        return self.value
