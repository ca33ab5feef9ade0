"""The error tree: what kind of trouble it is decides who acts.

SeamlineError
├─ ConfigError         a person must edit a file or a setting     never retried, exit code 2
├─ TransientError      the world may recover                      the one retry owner tries again
│  ├─ NotCaughtUp       an incremental snapshot and its stream stand at different offsets: try again
│  └─ SourceAway       only the source can verify what comes next in the log, and it does not answer
├─ TerminalError       trying again cannot help                   stops, names the cure
│  ├─ PositionLost     log purged, truncated, recreated, another server
│  ├─ SchemaConflict   a table no longer looks as planned
│  ├─ LogCorrupted     records missing, torn or foreign in the log topic
│  ├─ Refused          a check before the work said no (preflight, guarantee)
│  ├─ GateFailed       a check of the result said no
│  ├─ Diverged         the destination does not hold what the log builds on
│  ├─ WentBack         the destination does not hold what it had confirmed: restored, or failed over
│  └─ Fenced           another owner took a higher epoch: final for this worker
├─ CommitUnknown       sent, no answer: take a new epoch and read the ledger, never retry blindly
└─ InvariantViolated   our own bug: stop and keep the evidence
"""

from typing import Any

# How the line begins that says how to mend an error.
HINT = "  → "


class SeamlineError(Exception):
    """Root of all errors that Seamline raises on purpose.

    `hint` says how to mend it. All fields survive pickling, so an error crosses from a Spark worker whole.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        sync: str = "",
        table: str = "",
        position: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sync = sync
        self.table = table
        self.position = position
        # Of a step in several destinations that failed in all of them: what ended it in the others.
        self.others: tuple[SeamlineError, ...] = ()

    def __str__(self) -> str:
        place = ", ".join(
            f"{name} {value}"
            for name, value in (("sync", self.sync), ("table", self.table), ("position", self.position))
            if value
        )
        text = f"{self.message} ({place})" if place else self.message
        return f"{text}\n{HINT}{self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[SeamlineError], message: str, fields: dict[str, Any]) -> SeamlineError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class ConfigError(SeamlineError):
    """A declaration or setting is wrong: a person edits it."""

    exit_code = 2


class TransientError(SeamlineError):
    """A server or network is away for now."""


class NotCaughtUp(TransientError):
    """Tables cannot join a stream that stands at another offset of the log."""


class SourceAway(TransientError):
    """Changes cannot be verified while their source does not answer. Nothing of them was sent to the destination."""


class TerminalError(SeamlineError):
    """Trying again with the same input cannot help. Whoever starts a Spark job reads that from its exit code."""

    exit_code = 3


class PositionLost(TerminalError):
    """The log no longer holds what the ledger needs, or it is another log."""


class SchemaConflict(TerminalError):
    """The schema of a table differs from the plan."""


class LogCorrupted(TerminalError):
    """The log topic holds something that whole transactions in order cannot produce."""


class Refused(TerminalError):
    """A check before the work found a reason not to begin."""


class GateFailed(TerminalError):
    """A check of the result said no; nothing was published."""


class Diverged(TerminalError):
    """The destination does not hold the rows that the log builds on."""


class WentBack(TerminalError):
    """The ledger stands before what was confirmed to this worker: the destination was restored, or a late replica took
    over."""


class Fenced(TerminalError):
    """A higher epoch exists: this worker must never write again. The stream itself goes on, under its new owner."""

    @classmethod
    def ended(cls, error: str) -> bool:
        """Whether this is what ended a worker, as its host keeps it: `<class>: <message>`."""
        return error.startswith(f"{cls.__name__}:")


class CommitUnknown(SeamlineError):
    """A commit was sent and its answer lost; the ledger will show it after a new epoch is taken."""


class InvariantViolated(SeamlineError):
    """Something that must be impossible was seen: keep the evidence, stop."""

    exit_code = 3
