"""A place for files in the memory of a schedule: every call may be the last one of its process, or be sent and its
answer lost; a file may lose bytes on its way; and somebody else puts files there too."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from seamline.domain.errors import TransientError
from seamline.files.stores.store import Readable, Writable
from tests.fault.simulator.schedule import Schedule


class Place:
    """What lies there. `moves`: a file that is given another name leaves the old one, as by a rename; else it stays, as
    by a link or a copy. `overwrites`: planted. `version` grows with each small file that is put and each that goes."""

    def __init__(self, dice: random.Random) -> None:
        self.files: dict[str, bytes] = {}
        self.moves = dice.random() < 0.5
        self.overwrites = False
        self.version = 0


class SteppedStore:
    """`store.Store` over a place. `torn`: how likely a file loses bytes on its way, and nobody says so."""

    def __init__(self, place: Place, schedule: Schedule, *, torn: float, tally: Counter[str]) -> None:
        self._place, self._schedule, self._torn, self._tally = place, schedule, torn, tally

    def names(self, folder: str) -> Sequence[str]:
        self._schedule.step("names", is_network=True)
        below = [path.removeprefix(f"{folder}/") for path in self._place.files if path.startswith(f"{folder}/")]
        return sorted({path.partition("/")[0] for path in below})

    def size(self, path: str) -> int | None:
        self._schedule.step("size", is_network=True)
        content = self._place.files.get(path)
        return None if content is None else len(content)

    def write(self, path: str, content: Readable) -> None:
        whole = content.read()
        self._schedule.step("write", is_network=True)
        self._place.files[path] = whole[: len(whole) // 2]
        self._schedule.step("write, half of it", is_network=True)
        if len(whole) > 1 and self._schedule.dice.random() < self._torn:
            self._tally["file torn"] += 1
            whole = whole[:-1]
        self._place.files[path] = whole
        self._answered("write")

    def read(self, path: str, into: Writable) -> None:
        self._schedule.step("read", is_network=True)
        into.write(self._found(path))

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._schedule.step("put_if_absent", is_network=True)
        is_absent = path not in self._place.files
        if is_absent:
            self._place.files[path] = content
            self._place.version += 1
        self._answered("put_if_absent")
        return is_absent

    def read_put(self, path: str) -> bytes:
        self._schedule.step("read_put", is_network=True)
        return self._found(path)

    def place(self, source: str, target: str) -> bool:
        self._schedule.step("place", is_network=True)
        content = self._found(source)
        if target in self._place.files and not self._place.overwrites:
            return False
        if self._place.moves:
            del self._place.files[source]
        self._place.files[target] = content
        self._answered("place")
        return True

    def drop_unfinished(self, folder: str, before: datetime) -> int:  # noqa: ARG002
        return 0

    def remove(self, path: str) -> None:
        self._schedule.step("remove", is_network=True)
        self._place.files.pop(path, None)
        self._place.version += 1

    def remove_folder(self, folder: str) -> None:
        for path in [path for path in self._place.files if path.startswith(f"{folder}/")]:
            self.remove(path)

    def close(self) -> None:
        return

    def _found(self, path: str) -> bytes:
        if path not in self._place.files:
            raise FileNotFoundError(path)
        return self._place.files[path]

    def _answered(self, what: str) -> None:
        if self._schedule.dice.random() < self._schedule.odds.lost_answer:
            self._tally[f"lost answer: {what}"] += 1
            raise TransientError(f"the schedule has lost the answer to {what}")
