"""The log of a Delta table: a file of actions per version, which comes once or not at all, and checkpoints.

A version is put there by a hard link: of two who write the same number one succeeds, and what is linked is whole and on
the disk.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from seamline.domain.errors import InvariantViolated, Refused
from seamline.sinks.delta import checkpoint
from seamline.sinks.delta.state import Action, TableState
from seamline.sinks.lake.files import sync

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
# So many versions after the last checkpoint another one is due: who opens the table reads at most so many files.
CHECKPOINT_EVERY = 50
# What this writer knows of the protocol. A table that asks for more is refused.
FEATURES = frozenset({"deletionVectors", "timestampNtz", "appendOnly", "invariants"})
_READER, _WRITER = 3, 7


class VersionTaken(Exception):
    """Somebody else has written this version, or what it follows is gone. Never leaves a sink."""


class DeltaLog:
    """Of the table in a folder. `accepted`: gives the state of a table that may be read, or is Refused; without it only
    tables that a sync of ours writes."""

    def __init__(
        self, folder: Path, *, accepted: Callable[[TableState, Path], TableState] = lambda *at: understood(*at)
    ) -> None:
        self.folder = folder
        self._accepted = accepted
        self._path = folder / "_delta_log"

    @property
    def is_there(self) -> bool:
        return self._path.is_dir()

    def make(self) -> None:
        """Where it is there already, it is young from now on: nobody drops it as abandoned."""
        self._path.mkdir(parents=True, exist_ok=True)
        os.utime(self._path)
        sync(self.folder)

    def put(self, version: int, actions: Sequence[Action]) -> None:
        """VersionTaken. On the disk once it returns."""
        text = "".join(f"{json.dumps(action, ensure_ascii=False)}\n" for action in actions)
        draft = self._path / f".{version:020d}.{secrets.token_hex(8)}.json"
        try:
            draft.write_text(text, encoding="utf-8")
            sync(draft)
            # Behind a gap lies a log that was cleaned up meanwhile.
            if version and not self.commit_file(version - 1).exists():
                raise VersionTaken(str(self.folder))
            os.link(draft, self.commit_file(version))
        except FileExistsError as exc:
            raise VersionTaken(str(self.folder)) from exc
        finally:
            draft.unlink(missing_ok=True)
        sync(self._path)

    def actions(self, version: int) -> list[Action] | None:
        """None where there is no such version."""
        try:
            text = self.commit_file(version).read_text(encoding="utf-8")
            return [json.loads(line) for line in text.split("\n") if line]
        except FileNotFoundError:
            return None
        except ValueError as exc:
            raise ValueError(f"{self.commit_file(version).name}: {exc}") from exc

    def newest(self, known: TableState | None = None) -> TableState:
        """The head, from a state that is known or from the newest checkpoint."""
        state = known if known is not None else self._begin(None)
        while (actions := self.actions(state.version + 1)) is not None:
            state = state.after(actions)
        if state.version < 0:
            raise Refused(f"{self.folder} holds no Delta table", hint="was it moved? Onboard its sync again")
        return self._accepted(state, self.folder)

    def at(self, version: int, known: TableState | None = None) -> TableState:
        """Refused: nobody can make this version any more."""
        state = known if known is not None and known.version <= version else self._begin(version)
        while state.version < version:
            actions = self.actions(state.version + 1)
            if actions is None:
                raise Refused(
                    f"version {version} of {self.folder} is gone: its log has nothing for {state.version + 1}",
                    hint="somebody has cleaned up the log: take a later cut, or onboard the sync again",
                )
            state = state.after(actions)
        return self._accepted(state, self.folder)

    def write_checkpoint(self, state: TableState) -> None:
        """Whole or not at all; one that is there is written again."""
        draft = self._path / f".{state.version:020d}.{secrets.token_hex(8)}.parquet"
        size = checkpoint.write(state, draft)
        sync(draft)
        _replace(draft, self.checkpoint_file(state.version))
        last = self._path / f".last.{secrets.token_hex(8)}.json"
        last.write_text(json.dumps({"version": state.version, "size": size}), encoding="utf-8")
        if state.version >= max(self.checkpoints()):
            _replace(last, self._path / "_last_checkpoint")
        last.unlink(missing_ok=True)
        sync(self._path)

    def versions(self) -> list[int]:
        """Those that have a commit file, ascending."""
        return self._numbers(_COMMIT)

    def checkpoints(self) -> list[int]:
        """Ascending."""
        return self._numbers(_CHECKPOINT)

    def commit_file(self, version: int) -> Path:
        return self._path / f"{version:020d}.json"

    def drop(self, path: Path) -> None:
        """A commit or a checkpoint, with what other clients keep beside it."""
        for one in (path, hadoop_checksum(path), path.with_suffix(".crc"), hadoop_checksum(path.with_suffix(".crc"))):
            one.unlink(missing_ok=True)

    def checkpoint_file(self, version: int) -> Path:
        return self._path / f"{version:020d}.checkpoint.parquet"

    def _begin(self, version: int | None) -> TableState:
        """The newest checkpoint that is not behind this version, or what is before all."""
        for number in reversed(self.checkpoints()):
            if version is None or number <= version:
                file = self.checkpoint_file(number)
                try:
                    return checkpoint.read(file, number)
                except ValueError as exc:
                    raise ValueError(f"{file.name}: {exc}") from exc
        return TableState()

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        found = (pattern.fullmatch(path.name) for path in self._path.iterdir())
        return sorted(int(one[1]) for one in found if one)


def hadoop_checksum(path: Path) -> Path:
    """Where Hadoop, and with it Spark, keeps the checksum of a file that it has written to a local disk."""
    return path.with_name(f".{path.name}.crc")


def _replace(draft: Path, path: Path) -> None:
    """Spark would hold the new content against the checksum of its own: without one it holds it against nothing."""
    hadoop_checksum(path).unlink(missing_ok=True)
    draft.replace(path)


def understood(state: TableState, folder: Path) -> TableState:
    """Refused: the table needs what this reader and writer does not know."""
    protocol = state.protocol
    if not protocol or not state.metadata:
        raise InvariantViolated(f"the log of {folder} names no protocol or no schema at version {state.version}")
    asked = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if (protocol["minReaderVersion"], protocol["minWriterVersion"]) != (_READER, _WRITER) or asked - FEATURES:
        raise Refused(
            f"the Delta table in {folder} has protocol {protocol['minReaderVersion']}, {protocol['minWriterVersion']}"
            f" with {', '.join(sorted(asked - FEATURES)) or 'no more features'}",
            hint="somebody has changed its protocol: undo that, or onboard its sync again",
        )
    if state.metadata.get("partitionColumns"):
        raise Refused(f"the Delta table in {folder} has partitions", hint="onboard its sync again")
    return state
