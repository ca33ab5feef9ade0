"""A command that takes minutes goes on when its terminal is closed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def outlives_its_terminal(log: Path) -> Iterator[None]:
    """Within the block SIGHUP ends nothing: what is written from then on goes into `log`. For the main thread."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # `nohup` has seen to it already.
        yield
        return

    def go_on(*_: object) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        # Whatever holds these writes there now: threads, and programs that are started later.
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)

    before = signal.signal(signal.SIGHUP, go_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
