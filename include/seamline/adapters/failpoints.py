"""Named places where a test makes the process fail, die, stop or wait. Nothing happens unless they are armed.

Armed by `SEAMLINE_FAILPOINTS` or, for a process that already runs, by the file that `SEAMLINE_FAILPOINTS_FILE` names
(read again when it changes; it wins over the variable):

    app.commit_sent=kill9@3,app.dml_half=error

Modes: `error` raises TransientError; `kill9` ends the process at once; `stop` suspends it (SIGSTOP); `wait` holds it
until the place is no longer armed to wait. `@3`: only at the third time the place is reached; without it, each time.
The times are counted for each opening of `snap.slot_created` and each table of `snap.chunk_read` again.
Each time one fires, its name is appended to `<file>.fired`, so that a test can see that it did.
"""

import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from seamline.domain.errors import ConfigError, TransientError

NAMES = frozenset(
    {
        "app.epoch_taken",
        "app.fetched",
        "app.tx_assembled",
        "app.chunk_staged",
        "app.dest_begin",
        "app.position_written",
        "app.dml_half",
        "app.dml_done",
        "app.commit_sent",
        "app.commit_acked",
        "app.reported",
        "app.hold",
        "cut.overlap_ended",
        "pub.swapped",
        "pub.commit_sent",
        "pub.commit_acked",
        "addtable.joined",
        "cap.list_changed",
        "dag.double_run",
        "dag.state_written",
        "dag.trigger_event",
        "rec.stream_held",
        "rec.pair_opened",
        "rec.digest_done",
        "rec.breaks_written",
        "snap.slot_created",
        "snap.opened",
        "snap.chunk_read",
        "snap.chunk_staged",
        "snap.manifest_written",
        "lake.span_written",
        "lake.publish_written",
        "lake.tags_written",
        "lake.cut_recorded",
        "lake.cut_half",
        "lake.cut_committed",
    }
)
_ENTRY = re.compile(r"([a-z_.]+)=([a-z0-9]+)(?:@(\d+))?")
_WAIT_STEP_S = 0.02


class Mode(StrEnum):
    ERROR = "error"
    KILL9 = "kill9"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Arming:
    """`at_hit` 0: each time."""

    mode: Mode
    at_hit: int = 0


class ArmedFailpoints:
    """ports.Failpoints. `hits` counts how often each place was reached since this object was made."""

    def __init__(self, text: str = "", *, file: Path | None = None) -> None:
        self._armed = parse(text)
        self._file = file
        self._file_stamp = 0
        self.hits: dict[str, int] = {}

    def reach(self, name: str) -> None:
        self.hits[name] = self.hits.get(name, 0) + 1
        arming = self._arming(name)
        if arming is None or (arming.at_hit and arming.at_hit != self.hits[name]):
            return
        self._record(name)
        match arming.mode:
            case Mode.ERROR:
                raise TransientError(f"failpoint {name} was armed to fail here")
            case Mode.KILL9:
                os.kill(os.getpid(), signal.SIGKILL)
            case Mode.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)
            case Mode.WAIT:
                while (now := self._arming(name)) is not None and now.mode is Mode.WAIT:
                    time.sleep(_WAIT_STEP_S)

    def arm(self, text: str) -> None:
        """Replace what is armed (not what a file arms)."""
        self._armed = parse(text)

    def _arming(self, name: str) -> Arming | None:
        if self._file is not None:
            self._read_file(self._file)
        return self._armed.get(name)

    def _read_file(self, file: Path) -> None:
        try:
            stamp = file.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if stamp != self._file_stamp:
            self._armed = parse(file.read_text(encoding="utf-8"))
            self._file_stamp = stamp

    def _record(self, name: str) -> None:
        if self._file is not None:
            with self._file.with_name(self._file.name + ".fired").open("a", encoding="utf-8") as fired:
                fired.write(f"{name}\n")


def parse(text: str) -> dict[str, Arming]:
    """`name=mode[@hit]`, separated by commas or lines."""
    armed: dict[str, Arming] = {}
    for entry in filter(None, (part.strip() for part in text.replace("\n", ",").split(","))):
        match = _ENTRY.fullmatch(entry)
        if match is None or match[1] not in NAMES or match[2] not in {mode.value for mode in Mode}:
            raise ConfigError(
                f"not a failpoint: {entry!r}",
                hint=f"write name=mode or name=mode@hit; names: {', '.join(sorted(NAMES))}; modes: {', '.join(Mode)}",
            )
        armed[match[1]] = Arming(Mode(match[2]), int(match[3] or 0))
    return armed


def from_environment(environment: Mapping[str, str]) -> ArmedFailpoints | None:
    """What the environment arms; None when it says nothing, which is the rule."""
    text, file = environment.get("SEAMLINE_FAILPOINTS", ""), environment.get("SEAMLINE_FAILPOINTS_FILE", "")
    if not text and not file:
        return None
    return ArmedFailpoints(text, file=Path(file) if file else None)
