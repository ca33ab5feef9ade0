"""One publish of files, by a process of its own that ends at once in the middle of a step."""

import multiprocessing
import os
import signal
from collections.abc import Mapping
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.staged_cut import StagedCut
from seamline.plan.model import DestinationPlan
from seamline.sinks.files.cuts import open_cuts

# With the variables of now, by which connections are found.
_SPAWNED = multiprocessing.get_context("spawn")
WITHIN_S = 60


def killed_at(step: str, destination: DestinationPlan, cut: StagedCut, definitions: Mapping[str, Table]) -> int | None:
    """The exit code, negative for a signal; None if the process lives on after a minute."""
    worker = _SPAWNED.Process(target=_publish, args=(step, destination, cut, dict(definitions)))
    worker.start()
    worker.join(WITHIN_S)
    code = worker.exitcode
    worker.kill()
    return code


def _publish(step: str, destination: DestinationPlan, cut: StagedCut, definitions: Mapping[str, Table]) -> None:
    cuts = open_cuts(destination)
    real, calls = getattr(cuts.store, step), [0]

    def dying(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2 and step == "write":
            return real(args[0], _Torn(args[1]))
        if calls[0] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)

    setattr(cuts.store, step, dying)
    cuts.publish(cut, definitions=definitions)


class _Torn:
    """Kills its process after the first bytes have gone."""

    def __init__(self, content: Any) -> None:
        self._content, self._reads = content, 0

    def read(self, size: int = -1) -> bytes:
        self._reads += 1
        if self._reads > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return bytes(self._content.read(3))
