"""One stream as the code of one Spark task. Runs in a Python worker; knows nothing of Spark but that.

A stream that writes through DataFrames runs on the driver instead, in a thread of its own.
"""

import ctypes
import json
import logging
import math
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass

from seamline import registry
from seamline.domain.errors import CommitUnknown, ConfigError, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.frames import Frames
from seamline.plan.document import plan_from_json
from seamline.platform.control import PlatformStreamControl
from seamline.ports import Orders, StreamReport
from seamline.sync.pace import Pace
from seamline.sync.span_loop import run_stream
from seamline.sync.stream_host import Outcome

log = logging.getLogger(__name__)

# Outcome, error, and where an idle stream has to read on.
Ended = tuple[str, str, int]

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class StreamTask:
    """What the driver hands to a task: no secrets, only names. `host` is the lease's holder."""

    sync: str
    destination: str
    plan_json: str
    host: str
    is_paused: bool = False
    idle_after_s: float = math.inf

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def stream_partition(tasks: Iterable[str]) -> Iterator[Ended]:
    """One of each task; it is there once the stream has ended."""
    die_with_parent()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for text in tasks:
        yield run_one(StreamTask(**json.loads(text)))


def run_one(task: StreamTask, *, frames: Frames | None = None) -> Ended:
    """Stream until asked to stop or until trouble. An error that is not ours is a bug: it fails the task itself.

    `frames`: on the driver, for a destination that needs them.
    """
    try:
        last = _stream(task, frames)
    except SeamlineError as exc:
        outcome = outcome_of(exc)
        log.log(
            logging.WARNING if outcome is Outcome.TRANSIENT else logging.ERROR,
            "stream ended: stream=%s@%s error=%s: %s",
            task.sync,
            task.destination,
            type(exc).__name__,
            exc,
        )
        return outcome.value, f"{type(exc).__name__}: {exc}", 0
    return last.state, "", last.next_offset


def outcome_of(error: SeamlineError) -> Outcome:
    """Whether another attempt may help. A wrong setting may be mended while the host runs, a password above all."""
    if isinstance(error, TransientError | CommitUnknown | ConfigError):
        return Outcome.TRANSIENT
    return Outcome.FINAL


def _stream(task: StreamTask, frames: Frames | None) -> StreamReport:
    """Returns its last report: `stopped` or `idle`."""
    plan = plan_from_json(task.plan_json)
    stream = StreamId(task.sync, task.destination)
    with PlatformStreamControl(
        stream, plan_json=task.plan_json, host=task.host, first=Orders(paused=task.is_paused)
    ) as control:
        # Before servers are asked that may be slow to answer: a stream without a word is taken for suspended.
        control.report(StreamReport(stream, "starting"))
        with ExitStack() as opened:
            schema_guard = registry.schema_guard(plan)
            if schema_guard is not None:
                opened.enter_context(closing(schema_guard))
            return run_stream(
                plan,
                task.destination,
                reader=opened.enter_context(closing(registry.log_reader(plan))),
                sink=opened.enter_context(closing(registry.sink(plan, task.destination, frames=frames))),
                control=control,
                schema_guard=schema_guard,
                open_log=lambda: registry.log_reader(plan),
                failpoints=registry.failpoints(),
                pace=Pace(idle_after_s=task.idle_after_s),
            )


def die_with_parent() -> None:
    """Let the kernel kill this worker when Spark's daemon, its parent, dies: nobody else would.

    The daemon ends its workers when the JVM goes, but a daemon that is killed itself leaves them behind (Spark 4.1.3).
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    if os.getppid() != parent:
        # It died between the two calls: the signal will not come.
        os.kill(os.getpid(), signal.SIGKILL)
