"""One seed, one schedule of deliveries: publishers that die, sleep and are repeated, somebody who sweeps, somebody who
puts files of his own there, and a partner who looks at every step."""

import io
import json
import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from seamline.domain.errors import SeamlineError
from seamline.sinks.files.two_phase import Delivery, Manifest, ManifestLog
from tests.fault.simulator.file_places import Place, SteppedStore
from tests.fault.simulator.schedule import Crash, Odds, Process, Schedule, Violation

OWN, FLAG, CONTROL = ".seamline/s", "_SUCCESS", "control.json"
THEIRS = b"of somebody else"
_TRIES = 6


class Deliveries:
    """Runs publish a version each, all in one place."""

    def __init__(self, seed: int) -> None:
        dice = self._dice = random.Random(seed)
        self.tally = Counter[str]()
        self.odds = Odds(
            crash=dice.choice([0.0, 0.01, 0.03]),
            transient=dice.choice([0.0, 0.01]),
            sleep=dice.choice([0.0, 0.02, 0.05]),
            lost_answer=dice.choice([0.0, 0.05]),
            switch=dice.choice([0.1, 0.5, 0.9]),
        )
        self.torn = dice.choice([0.0, 0.02])
        self.schedule = Schedule(dice, self.odds, self.tally)
        self.place = Place(dice)
        self.attempts = 0
        self.published: dict[str, int] = {}
        self.seen: dict[str, dict[str, bytes]] = {}
        self.theirs = set[str]()
        self.working = Counter[str]()

    def run(self) -> None:
        runs = [f"r{number}" for number in range(self._dice.randint(1, 4))]
        for run in runs:
            # The scheduler repeats a run that it has not heard of, also where that is alive.
            for again in range(_TRIES):
                self._spawn(f"{run}.{again}", partial(self._publish, run))
        for number in range(self._dice.randint(0, 3)):
            self._spawn(f"sweeper {number}", self._sweep)
        if self._dice.random() < 0.3:
            self._spawn("somebody", self._put_theirs)
        self.schedule.run(lambda: not sum(self.working.values()), each=self._look, what="the schedule's own end")
        self.schedule.quiet()
        self.torn = 0.0
        self._take_theirs_away()
        for run in runs:
            self._spawn(f"{run} at last", partial(self._publish, run))
            self.schedule.run(lambda: not sum(self.working.values()), each=self._look, what=f"the end of {run}")
        self._check_the_end(runs)

    def _spawn(self, name: str, work: Any) -> None:
        self.working[name] = 1

        def ended(process: Process, error: SeamlineError | Crash | None) -> None:
            self.working[name] = 0
            if error is not None:
                self.tally[f"ended by {type(error).__name__}"] += 1

        process = Process(name, on_end=ended)
        # So it may sleep.
        process.has_begun = True
        self.schedule.spawn(process, work)

    def _log(self) -> ManifestLog:
        store = SteppedStore(self.place, self.schedule, torn=self.torn, tally=self.tally)
        return ManifestLog(store, OWN)

    # ---- who writes -------------------------------------------------------------------------------------------------

    def _attempt(self) -> str:
        self.attempts += 1
        return f"a{self.attempts}"

    def _publish(self, run: str) -> None:
        """As `FilesCuts.publish`, with files of a few bytes."""
        log = self._log()

        def once(newest: Manifest) -> int | None:
            state: Mapping[str, int] = newest.state or {"swept": 0}
            if run in state:
                self.tally["found by a repeat"] += 1
                return state[run]
            attempt, version = self._attempt(), 1 + sum(name != "swept" for name in state)
            try:
                delivery = self._prepared(log, attempt, run, version)
            except SeamlineError:
                log.abort(attempt)
                raise
            decided = log.decide(newest, attempt, {**state, run: version}, delivery)
            if decided is None:
                self.tally["overtaken"] += 1
                log.abort(attempt)
                return None
            self._note_decided(run, version)
            log.show(decided)
            return version

        version = log.settle(once)
        if self.published.setdefault(run, version) != version:
            raise Violation("once", f"{run} was published as {self.published[run]} and as {version}")

    def _prepared(self, log: ManifestLog, attempt: str, run: str, version: int) -> Delivery:
        contents = {f"t{number}": f"{run} {number}".encode() for number in range(2)}
        files = [log.write(attempt, name, io.BytesIO(content)) for name, content in contents.items()]
        control = json.dumps({name: content.decode() for name, content in contents.items()}).encode()
        files.append(log.write(attempt, CONTROL, io.BytesIO(control)))
        files.append(log.write(attempt, FLAG, io.BytesIO()))
        delivery = Delivery(attempt, f"out/v{version}", tuple(files))
        log.prepare(delivery, check=lambda file, path: None)
        return delivery

    def _note_decided(self, run: str, version: int) -> None:
        """What its author takes for decided must be so for all that come."""
        newest = max((path for path in self.place.files if path.startswith(f"{OWN}/log/")), default="")
        state = json.loads(self.place.files[newest])["state"] if newest else {}
        if state.get(run) != version:
            raise Violation("decided", f"{run} takes {version} for decided, the newest manifest says {state}")

    def _sweep(self) -> None:
        log = self._log()
        swept = log.sweep(
            log.attempts(),
            self._attempt(),
            lambda newest: {**newest.state, "swept": newest.state.get("swept", 0) + 1},
        )
        self.tally["attempts swept"] += swept
        self.tally["manifests gone"] += log.compact(keep=1)

    def _put_theirs(self) -> None:
        """Where the next version's file will be, and not where one is."""
        for _ in range(3):
            self.schedule.wait()
        path = f"out/v{self._dice.randint(1, 3)}/t1"
        if path not in self.place.files:
            self.tally["file of somebody else"] += 1
            self.place.files[path] = THEIRS
            self.theirs.add(path)

    def _take_theirs_away(self) -> None:
        for path in self.theirs:
            if self.place.files.get(path) != THEIRS:
                raise Violation("overwritten", f"{path} of somebody else's is gone")
            del self.place.files[path]
        self.theirs.clear()

    # ---- who looks --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """A partner: behind a flag all files are there and whole, and never change again."""
        for path in [path for path in self.place.files if path.endswith(f"/{FLAG}") and path.startswith("out/")]:
            folder = path.removesuffix(FLAG)
            found = self._below(folder)
            if CONTROL not in found:
                raise Violation("half seen", f"{folder} has a flag and no control file")
            for name, content in json.loads(found[CONTROL]).items():
                if found.get(name) != content.encode():
                    raise Violation("half seen", f"{folder}{name} is {found.get(name)!r} behind the flag")
            if self.seen.setdefault(folder, found) != found:
                raise Violation("changed", f"{folder} has changed since its flag was seen")

    def _below(self, folder: str) -> dict[str, bytes]:
        files = self.place.files.items()
        return {path.removeprefix(folder): content for path, content in files if path.startswith(folder)}

    def _check_the_end(self, runs: list[str]) -> None:
        self._look()
        shown = Counter(json.loads(found[CONTROL])["t0"].partition(" ")[0] for found in self.seen.values())
        if shown != Counter(runs):
            raise Violation("once", f"of {', '.join(runs)} there are {dict(shown)}")
        for run, version in self.published.items():
            if not self.seen[f"out/v{version}/"]["t0"].decode().startswith(run):
                raise Violation("once", f"{run} is not what is shown as version {version}")
        self.tally["ends compared"] += 1


def run_deliveries(seed: int) -> Counter[str]:
    """Raises Violation, or gives what was met."""
    deliveries = Deliveries(seed)
    try:
        deliveries.run()
    finally:
        deliveries.schedule.end()
    return deliveries.tally
