"""Lines that show a waiting person what is happening, each with the time since the start."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Prints `[ 12.3 s] text`. Safe to call from several threads."""

    def __init__(self, *, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out or sys.stdout
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    def say(self, text: str) -> None:
        with self._lock:
            self._out.write(f"[{self.elapsed_s:6.1f} s] {text}\n")
            self._out.flush()

    @contextmanager
    def saying(self, text: Callable[[], str], *, every_s: float = 15.0) -> Iterator[None]:
        """Say what `text` gives now and then, until the block ends."""
        is_over = threading.Event()

        def repeat() -> None:
            while not is_over.wait(every_s):
                self.say(text())

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
