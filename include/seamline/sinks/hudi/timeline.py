"""The timeline of a Hudi table, and beside it the numbers by which its writers take turns.

Hudi names a commit by its writer's clock: the instants of two writers say nothing about who may commit. So whoever
commits first takes the next number of the table, in `.hoodie/seamline`: by a hard link, which succeeds for one of two.
What it links is the commit's content, whole and on the disk. Only then the same file gets its name in Hudi's timeline;
for a writer that died before that, the next one does it.

An instant is reserved by a file of its own, which is made once: nobody else has it. Data files carry it in their names.
So the files of an owner that never gets a number are of an instant that is in no timeline, and no reader looks at them.
"""

import os
import re
import secrets
import zlib
from pathlib import Path

from seamline.domain.errors import Refused
from seamline.sinks.hudi import instants
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.types import plain_name
from seamline.sinks.lake.files import sync

_NUMBER = re.compile(r"(\d{20})\.json")
_COMMIT = re.compile(r"(\d{17,})(?:_\d+)?\.(commit|deltacommit|replacecommit)")
_OWN_ACTION = "replacecommit"
# What Hudi's table services and procedures leave there; none of ours is among them.
_SERVICE = re.compile(r"\d{17,}(?:_\d+)?\.(clean|rollback|restore)")
_VERSION = "hoodie.table.version=6"
_PARTITION_METADATA = "commitTime={instant}\npartitionDepth=0\n"


class NumberTaken(Exception):
    """Somebody else has written the table meanwhile. Never leaves a sink."""


class Timeline:
    """Of the table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / ".hoodie"
        self.numbers_path = self.path / "seamline"

    @property
    def is_there(self) -> bool:
        return self.numbers_path.is_dir()

    def make(self) -> None:
        """The folders. Where they are there already, they are young from now on: nobody drops them as abandoned."""
        self.numbers_path.mkdir(parents=True, exist_ok=True)
        os.utime(self.numbers_path)
        sync(self.path)
        sync(self.folder)

    def describe(self, name: str, key: tuple[str, ...], instant: int) -> None:
        """Write what Hudi's clients read first: a table of version 6 without partitions and without columns of Hudi's
        own. Before its first commit."""
        name = plain_name(name)
        lines = [
            f"hoodie.table.name={name}",
            "hoodie.table.type=COPY_ON_WRITE",
            _VERSION,
            "hoodie.timeline.layout.version=1",
            *([f"hoodie.table.recordkey.fields={','.join(key)}"] if key else []),
            "hoodie.table.partition.fields=",
            "hoodie.table.keygenerator.type=NON_PARTITION",
            "hoodie.table.base.file.format=PARQUET",
            "hoodie.populate.meta.fields=false",
            "hoodie.archivelog.folder=archived",
            "hoodie.table.timeline.timezone=UTC",
            # Of the name of a database, which is empty, and of the table's.
            f"hoodie.table.checksum={zlib.crc32(f'.{name}'.encode())}",
        ]
        _write_whole(self.folder / ".hoodie_partition_metadata", _PARTITION_METADATA.format(instant=instant))
        _write_whole(self.path / "hoodie.properties", "\n".join([*lines, ""]))

    def reserve(self, after: int) -> int:
        """An instant behind `after` that nobody else has, and nobody else gets."""
        while True:
            after = instants.next_after(after)
            try:
                os.close(os.open(self.reservation(after), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            # Retention drops old reservations. Whoever slept since then may have a clock that is behind.
            if not self.has(after):
                return after

    def put(self, number: int, state: TableState, before: TableState) -> None:
        """Take this number for a commit. NumberTaken. On the disk and in Hudi's timeline once it returns."""
        draft = self.numbers_path / f".{number:020d}.{secrets.token_hex(8)}.json"
        draft.write_text(state.content(before), encoding="utf-8")
        try:
            sync(draft)
            # Behind the draft, whose age retention looks at: an old number goes only where no older draft is left.
            if self.newest_number() != number - 1:
                raise NumberTaken(str(self.folder))
            os.link(draft, self.number_file(number))
        except (FileExistsError, FileNotFoundError) as exc:
            raise NumberTaken(str(self.folder)) from exc
        finally:
            draft.unlink(missing_ok=True)
        sync(self.numbers_path)
        self._show(number, state)

    def head(self) -> tuple[int, TableState]:
        """The newest number and what the table is there; -1 and nothing of a table without a commit.

        Refused: somebody has made another table of it.
        """
        number = self.newest_number()
        if number < 0:
            return number, TableState()
        self._require_version()
        path = self.number_file(number)
        state = TableState.parsed(path.read_text(encoding="utf-8"), path)
        self._show(number, state)
        return number, state

    def newest(self) -> TableState:
        """Of the newest number, whatever somebody has made of the table since."""
        number = self.newest_number()
        if number < 0:
            return TableState()
        path = self.number_file(number)
        return TableState.parsed(path.read_text(encoding="utf-8"), path)

    def at(self, instant: int) -> TableState:
        """Refused: the instant is gone from the timeline."""
        path = self.commit_file(instant)
        try:
            return TableState.parsed(path.read_text(encoding="utf-8"), path)
        except FileNotFoundError as exc:
            raise Refused(
                f"instant {text_of(instant)} of {self.folder} is gone",
                hint="somebody has cleaned up the timeline: take a later cut, or onboard the sync again",
            ) from exc

    def read(self, name: str) -> TableState:
        """Of a commit by its name. Refused: somebody else wrote it. FileNotFoundError."""
        path = self.path / name
        try:
            return TableState.parsed(path.read_text(encoding="utf-8"), path)
        except ValueError as exc:
            # Hudi's later versions write no JSON.
            raise Refused(f"{path} is a commit of somebody else", hint="onboard its sync again") from exc

    def has(self, instant: int) -> bool:
        return self.commit_file(instant).exists()

    def commits(self) -> dict[str, int]:
        """The names of all commits, whoever wrote them, with their instants."""
        found = ((name, _COMMIT.fullmatch(name)) for name in _names(self.path))
        return {name: int(match[1]) for name, match in found if match}

    def services(self) -> set[str]:
        """Names of what somebody has done to files of the table: a clean, a rollback or a restore."""
        return {name for name in _names(self.path) if _SERVICE.fullmatch(name)}

    def has_files(self) -> bool:
        """Whether all data files of the newest number are there."""
        return all((self.folder / name).exists() for name in self.newest().files)

    def newest_number(self) -> int:
        return max(self.numbers(), default=-1)

    def numbers(self) -> list[int]:
        found = (_NUMBER.fullmatch(name) for name in _names(self.numbers_path))
        return sorted(int(match[1]) for match in found if match)

    def number_file(self, number: int) -> Path:
        return self.numbers_path / f"{number:020d}.json"

    def commit_file(self, instant: int) -> Path:
        return self.path / f"{text_of(instant)}.{_OWN_ACTION}"

    def reservation(self, instant: int) -> Path:
        return self.numbers_path / f"{text_of(instant)}.taken"

    def _show(self, number: int, state: TableState) -> None:
        """In Hudi's timeline, where it is not there yet."""
        path = self.commit_file(state.instant)
        if path.exists():
            return
        try:
            os.link(self.number_file(number), path)
        except FileExistsError:
            return
        sync(self.path)

    def _require_version(self) -> None:
        said = (self.path / "hoodie.properties").read_text(encoding="utf-8").splitlines()
        if _VERSION not in said:
            raise Refused(
                f"the Hudi table in {self.folder} is of another version now",
                hint="somebody else's writer has upgraded it: onboard its sync again",
            )


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
