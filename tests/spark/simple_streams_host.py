"""The real stream host with streams that do nothing: each writes who it is into a folder and follows its orders.

A sync named `deaf…` does not follow them; one named `fenced…` is fenced at once.
"""

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from seamline import settings
from seamline.domain.ledger import StreamId
from seamline.platform.control import PlatformStreamControl
from seamline.platform.host_coordinator import HostCoordinator
from seamline.ports import StreamReport
from seamline_spark.stream_host.host import WatchSource
from seamline_spark.stream_host.main import main
from seamline_spark.stream_host.task import Ended, StreamTask, die_with_parent


def simple_partition(tasks: Iterable[str]) -> Iterator[Ended]:
    die_with_parent()
    for text in tasks:
        yield simple_stream(StreamTask(**json.loads(text)))


def simple_stream(task: StreamTask) -> Ended:
    if task.sync.startswith("fenced"):
        return "final", "Fenced: by epoch 7", 0
    stream = StreamId(task.sync, task.destination)
    place = Path(settings.process_environment()["SIMPLE_STREAMS_FOLDER"]) / task.sync
    turns, pace = 0, threading.Event()
    with PlatformStreamControl(stream, plan_json=task.plan_json, host=task.host) as control:
        while control.orders().wanted or task.sync.startswith("deaf"):
            turns += 1
            control.report(StreamReport(stream, "streaming", epoch=1, transactions=turns))
            new = place.with_suffix(".new")
            who = {"pid": os.getpid(), "turns": turns, "daemon": os.getppid()}
            new.write_text(json.dumps(who), encoding="utf-8")
            new.rename(place)
            pace.wait(0.05)
        control.report(StreamReport(stream, "stopped", transactions=turns))
    return "stopped", "", 0


class NoWatch:
    """There is no source here."""

    def carry(self, tables: frozenset[str]) -> None:
        return

    def close(self) -> None:
        return


def watch_nothing(_: HostCoordinator) -> WatchSource:
    return lambda _: NoWatch()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], partition=simple_partition, watch_source=watch_nothing))
