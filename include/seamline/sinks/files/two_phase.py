"""Two-phase commit of files into a place that has no transactions, by a log of manifests that lies there too.

1. **Prepare.** All files of a delivery lie whole in a folder of its attempt, and were read back. A note beside them
   says that they are there.
2. **Decide.** Manifest n + 1 is put if no other is there. Who wins it has committed. Nothing of it is visible yet.
3. **Show.** The files are given their names one by one, never over another file: those with rows, the control file, and
   last of all the flag. Then the note goes.

Who comes next, in any process, reads the newest manifest, and first shows what it has decided and the note says is not
shown. Nobody coordinates but the manifest, so there is nobody to be lost: no lease, and no row in another database. A
writer that was taken for dead may wake at any step: it finds its number taken, or its files shown.

Manifests of long ago go, and the newest never does. A writer that slept for so long that the number it wants has gone
by then would win it again. So a floor is put before any manifest goes: no number up to it counts, whoever has won it.
"""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seamline.domain.errors import GateFailed, InvariantViolated, Refused, TransientError
from seamline.files.stores.drafts import drafted
from seamline.files.stores.store import Sendable, Store

_LOG = "log"
_PREPARED = "prepared"
_ENDING, _FLOOR = ".json", ".floor"
_DIGITS = 8
# So often a number may be won by somebody else, before the one retry owner tries again.
_ROUNDS = 5
# Beside the files of an attempt: they are there; all of them have their names but for the flag.
_NOTE, _PLACED = "_prepared", "_placed"
NOTES = (_NOTE, _PLACED)


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """`sha256` in hex."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """Files that become visible in a folder, in this order: the flag is the last one. `attempt` is unique."""

    attempt: str
    folder: str
    files: tuple[DeliveredFile, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was decided by its number: `state` as JSON, and the delivery that it shows, if it is of one. Number 0 stands
    where nothing was decided yet."""

    number: int
    attempt: str
    state: Mapping[str, Any]
    delivery: Delivery | None = None


Found = TypeVar("Found")
NOTHING = Manifest(0, "", {})


class ManifestLog:
    """The log of one sync in one store. `folder`: where what partners do not need lies, as all paths below the root."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._log = f"{folder}/{_LOG}"
        self._prepared = f"{folder}/{_PREPARED}"

    # ---- read -------------------------------------------------------------------------------------------------------

    def newest(self) -> Manifest:
        for _ in range(_ROUNDS):
            if not (numbers := self._numbers()):
                return NOTHING
            # It goes only once there is a newer one; what lies there afterwards was put by who came too late.
            with suppress(FileNotFoundError):
                found = self._read(numbers[-1])
                if self._counts(found.number):
                    return found
        raise TransientError(f"others decide in {self._log} all the time", hint="it is tried again")

    def _numbers(self, ending: str = _ENDING) -> list[int]:
        return _numbered(self._store.names(self._log), ending)

    def _read(self, number: int) -> Manifest:
        try:
            return _manifest(json.loads(self._store.read_put(self._path(number))))
        except (KeyError, TypeError, ValueError) as exc:
            raise InvariantViolated(f"manifest {number} in {self._log} cannot be read: {exc}") from exc

    def _path(self, number: int) -> str:
        return f"{self._log}/{number:0{_DIGITS}d}{_ENDING}"

    # ---- prepare ----------------------------------------------------------------------------------------------------

    def write(self, attempt: str, name: str, content: Sendable) -> DeliveredFile:
        """A file of an attempt, in the attempt's own folder."""
        reading = Hashing(content)
        self._store.write(self._of(attempt, name), reading)
        return DeliveredFile(name, reading.size, reading.sha256)

    def prepare(self, delivery: Delivery, *, check: Callable[[DeliveredFile, Path], None]) -> None:
        """Read back all its files: from here on they are shown if a manifest says so.

        `check` is given each of them as the store has it, on a disk of this machine. GateFailed: the store gives back
        another file than was written.
        """
        for file in delivery.files:
            with read_whole(self._store, self._of(delivery.attempt, file.name), file) as found:
                check(file, found)
        self._store.write(self._of(delivery.attempt, _NOTE), io.BytesIO())

    def _of(self, attempt: str, name: str) -> str:
        return f"{self._prepared}/{attempt}/{name}"

    # ---- decide -----------------------------------------------------------------------------------------------------

    def decide(
        self, after: Manifest, attempt: str, state: Mapping[str, Any], delivery: Delivery | None = None
    ) -> Manifest | None:
        """The next manifest behind `after`; None where somebody else has decided in between."""
        manifest = Manifest(after.number + 1, attempt, state, delivery)
        self._store.put_if_absent(self._path(manifest.number), _written(manifest))
        return manifest if self._is_decided(manifest) else None

    def decide_by_answer(self, after: Manifest, attempt: str, state: Mapping[str, Any]) -> Manifest | None:
        """As `decide`, but what lies there is not read again: the store's answer and one list of names say it.

        None also where this manifest is there and the store has answered to a second try of its own. Who goes on from
        the newest manifest finds that. None, too, where `after` is not there any more, and this one goes again: the
        place was put back to an older copy, and does not hold what this one builds on.
        """
        manifest = Manifest(after.number + 1, attempt, state)
        if not self._store.put_if_absent(self._path(manifest.number), _written(manifest)):
            return None
        names = self._store.names(self._log)
        if not self._counts(manifest.number, names):
            return None
        # Read again before anything goes: a list of names may be late.
        if _was_taken_away(after.number, names) and not self._is_there(after):
            self._store.remove(self._path(manifest.number))
            return None
        return manifest

    def _is_decided(self, manifest: Manifest) -> bool:
        """By what lies there, whatever the answer was: a client may have put it twice, the second time where it had
        gone by then. What is above the floor has never gone, so who finds his own there was the first."""
        return self._counts(manifest.number) and self._is_there(manifest)

    def _counts(self, number: int, names: Sequence[str] = ()) -> bool:
        """Whether no manifest of this number has ever gone. Asked behind what it is asked about, as `names` were."""
        return number > max(_numbered(names or self._store.names(self._log), _FLOOR), default=0)

    def _is_there(self, manifest: Manifest) -> bool:
        try:
            return self._read(manifest.number).attempt == manifest.attempt
        except FileNotFoundError:
            return False

    def settle(self, once: Callable[[Manifest], Found | None]) -> Found:
        """What `once` makes of the newest manifest, which is shown, as soon as nobody else decides in between.

        `once` gives None where its decision came too late. TransientError: that goes on.
        """
        for _ in range(_ROUNDS):
            newest = self.newest()
            self.show(newest)
            found = once(newest)
            if found is not None:
                return found
        raise TransientError(f"others decide in {self._log} all the time", hint="it is tried again")

    # ---- show -------------------------------------------------------------------------------------------------------

    def show(self, manifest: Manifest) -> None:
        """All files of its delivery are visible afterwards, if they were not before. A repeat changes nothing.

        Refused: a file of somebody else's has one of the names.
        """
        delivery = manifest.delivery
        if delivery is None or self._store.size(self._of(delivery.attempt, _NOTE)) is None:
            return
        *files, flag = delivery.files
        if self._store.size(self._of(delivery.attempt, _PLACED)) is None:
            for file in files:
                self._place(delivery, file)
            self._store.write(self._of(delivery.attempt, _PLACED), io.BytesIO())
        # Where the flag was there before, who came for the files may have taken them already.
        if all(self._store.size(f"{delivery.folder}/{file.name}") == file.size_bytes for file in files):
            self._put_flag(delivery, flag)
        self._forget(delivery.attempt)

    def _place(self, delivery: Delivery, file: DeliveredFile) -> None:
        source, target = self._of(delivery.attempt, file.name), f"{delivery.folder}/{file.name}"
        try:
            is_placed = self._store.place(source, target)
        except FileNotFoundError:
            is_placed = False
        found = self._store.size(target)
        if found is None:
            if self._store.size(self._of(delivery.attempt, _NOTE)) is None:
                return  # Somebody else has shown all of it meanwhile.
            raise _not_there(target)
        if found != file.size_bytes or not (is_placed or self._is_whole(target, file)):
            raise Refused(
                f"{target} is there already, and is not the file of this delivery",
                hint="somebody else has put it there: take it away, then run the task again",
            )

    def _put_flag(self, delivery: Delivery, flag: DeliveredFile) -> None:
        target = f"{delivery.folder}/{flag.name}"
        with suppress(FileNotFoundError):  # It was put before.
            self._store.place(self._of(delivery.attempt, flag.name), target)
            if self._store.size(target) is None:
                raise _not_there(target)

    def _is_whole(self, path: str, file: DeliveredFile) -> bool:
        try:
            with read_whole(self._store, path, file):
                return True
        except GateFailed:
            return False

    def _forget(self, attempt: str) -> None:
        """The note goes first: without it nobody looks for the files."""
        self._store.remove(self._of(attempt, _NOTE))
        self._store.remove_folder(f"{self._prepared}/{attempt}")

    # ---- maintenance ------------------------------------------------------------------------------------------------

    def attempts(self) -> Sequence[str]:
        """Those whose folders are there."""
        return self._store.names(self._prepared)

    def abort(self, attempt: str) -> None:
        """Of an attempt that no manifest has decided, nor will."""
        self._forget(attempt)

    def sweep(self, attempts: Sequence[str], own: str, state: Callable[[Manifest], Mapping[str, Any]]) -> int:
        """Decide a state without a delivery, and remove what these attempts have left; how many.

        The manifest, of the attempt `own`, comes first: none of the others can win a number from then on, as each of
        them has looked for the newest manifest before it made its folder. 0 where somebody else decided in between.
        """
        newest = self.newest()
        self.show(newest)
        if self.decide(newest, own, state(newest)) is None:
            return 0
        for attempt in attempts:
            self.abort(attempt)
        return len(attempts)

    def compact(self, *, keep: int) -> int:
        """Remove all manifests but so many of the newest, at least one; how many."""
        gone = self._numbers()[: -max(keep, 1)]
        if gone:
            self._raise_floor(gone[-1])
        for number in gone:
            self._store.remove(self._path(number))
        self._remove_drafts()
        return len(gone)

    def _remove_drafts(self) -> None:
        """What killed puts have left, of numbers that do not count any more: who is still about to put one has lost."""
        floor = max(self._numbers(_FLOOR), default=0)
        for name in self._store.names(self._log):
            number = drafted(name).partition(".")[0]
            if number.isdecimal() and int(number) <= floor:
                self._store.remove(f"{self._log}/{name}")

    def _raise_floor(self, number: int) -> None:
        """The highest one never goes."""
        lower = [one for one in self._numbers(_FLOOR) if one < number]
        self._store.put_if_absent(self._floor(number), b"")
        for one in lower:
            self._store.remove(self._floor(one))

    def _floor(self, number: int) -> str:
        return f"{self._log}/{number:0{_DIGITS}d}{_FLOOR}"


@contextmanager
def read_whole(store: Store, path: str, file: DeliveredFile) -> Iterator[Path]:
    """A file of a store on a disk of this machine, until it is closed. GateFailed: it is another one, or is gone."""
    with tempfile.NamedTemporaryFile() as found:
        writing = Hashing(found)
        try:
            store.read(path, writing)
        except FileNotFoundError as exc:
            raise GateFailed(f"{path} is not there any more", hint="somebody has removed it") from exc
        if (writing.size, writing.sha256) != (file.size_bytes, file.sha256):
            raise GateFailed(
                f"{path} has {writing.size} bytes, sha256 {writing.sha256}; {file.size_bytes} bytes, sha256"
                f" {file.sha256} were written",
                hint="the store or somebody has changed it: look there before you try again",
            )
        found.flush()
        yield Path(found.name)


def _was_taken_away(number: int, names: Sequence[str]) -> bool:
    """Whether a manifest is not among these, though maintenance has not removed it: that puts a floor first."""
    return number > max(_numbered(names, _FLOOR), default=0) and number not in _numbered(names)


def _numbered(names: Sequence[str], ending: str = _ENDING) -> list[int]:
    of_ending = [name.removesuffix(ending) for name in names if name.endswith(ending)]
    return sorted(int(name) for name in of_ending if name.isdecimal())


def _not_there(path: str) -> GateFailed:
    return GateFailed(
        f"{path} is not there after it was placed",
        hint="the store has lost it or says what it has not done: the delivery has no flag. Look at the store",
    )


class Hashing:
    """A stream of bytes that counts and hashes what passes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self._at = 0
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._stream.read(size)
        # What was read before, and is sent again, is hashed already.
        known = self.size - self._at
        self._at += len(content)
        self._counted(content[known:])
        return content

    def seek(self, offset: int) -> int:
        """To a place that was read before."""
        self._at = self._stream.seek(offset)
        return self._at

    def write(self, content: bytes) -> int:
        self._stream.write(content)
        return len(self._counted(content))

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def _counted(self, content: bytes) -> bytes:
        self._hash.update(content)
        self.size += len(content)
        return content


def _written(manifest: Manifest) -> bytes:
    delivery = manifest.delivery
    document = {
        "number": manifest.number,
        "attempt": manifest.attempt,
        "state": manifest.state,
        "delivery": delivery
        and {
            "attempt": delivery.attempt,
            "folder": delivery.folder,
            "files": [{"name": file.name, "bytes": file.size_bytes, "sha256": file.sha256} for file in delivery.files],
        },
    }
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _manifest(document: Mapping[str, Any]) -> Manifest:
    delivery = document["delivery"]
    return Manifest(
        document["number"],
        document["attempt"],
        document["state"],
        delivery
        and Delivery(
            delivery["attempt"],
            delivery["folder"],
            tuple(DeliveredFile(file["name"], file["bytes"], file["sha256"]) for file in delivery["files"]),
        ),
    )
