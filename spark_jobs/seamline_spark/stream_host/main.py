"""The stream host as a process: the pool's lease, Spark, signals, an orderly end.

| exit code | meaning |
|---|---|
| 0 | stopped as asked, every stream at an END |
| 1 | something it needs is gone: start it again |
| 2 | a setting is wrong |
| 4 | another host serves the pool; it is named |
"""

import argparse
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from seamline import registry
from seamline.cluster.code_archive import InstalledCode
from seamline.domain.errors import SeamlineError, TransientError
from seamline.platform.host_coordinator import HostCoordinator
from seamline.platform.host_lease import this_process
from seamline.sync.code_rollout import CODE_DIFFERS, CodeRollout
from seamline.sync.late_postings import LateTools, LateWatch
from seamline.sync.source_watch import SOURCE_ALARMS
from seamline.sync.stream_host import ROSTER_ALARMS, StreamRoster
from seamline.sync.stream_state import alarms_due_now, alarms_over_now
from seamline_spark.stream_host.host import StopAsked, StreamHost, WatchSource, watch_source_with
from seamline_spark.stream_host.spark_streams import Partition, SparkStreams, configured, iceberg_jars
from seamline_spark.stream_host.task import stream_partition

log = logging.getLogger("seamline_spark.stream_host")

_STOP_GRACE_S = 8.0
_TRY_AGAIN_S = 2.0


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="stream_host", description="Runs the streams of one pool until it is stopped."
    )
    parser.add_argument("--pool", default="default", help="the pool whose streams to run (stream.pool of a sync)")
    parser.add_argument("--slots", type=int, default=32, help="tasks of a local Spark, or the most cores of a cluster")
    parser.add_argument("--reserve", type=int, default=1, help="slots kept free for tasks that are slow to die")
    parser.add_argument(
        "--idle-after",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds without a change after which a stream gives up its worker, until the log has something for it"
        " or somebody asks something of it",
    )
    parser.add_argument(
        "--look-at-code",
        type=float,
        default=15.0,
        metavar="S",
        help="seconds between two looks at the installed code; new code restarts the streams one after another",
    )
    return parser.parse_args(argv)


def main(
    argv: Sequence[str],
    *,
    partition: Partition = stream_partition,
    watch_source: Callable[[HostCoordinator], WatchSource] = watch_source_with,
) -> int:
    chosen = arguments(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Each question to Connect would be a line of its own.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    events: SimpleQueue[Any] = SimpleQueue()
    # SimpleQueue.put may be called from a signal handler, Queue.put may not.
    _on_stop_signals(lambda number, _: events.put(StopAsked(signal.Signals(number).name)))
    coordinator = HostCoordinator(
        pool=chosen.pool,
        holder=this_process(),
        on_event=events.put,
        silence_s=StreamRoster.silence_s,
        alarms=(*ROSTER_ALARMS, *SOURCE_ALARMS, CODE_DIFFERS),
        alarms_over=alarms_over_now,
        alarms_due=alarms_due_now,
    )
    try:
        if not _take(coordinator, events):
            return 0
        return _serve(chosen, coordinator, events, partition=partition, watch_source=watch_source(coordinator))
    except SeamlineError as exc:
        sys.stderr.write(f"stream_host: {exc}\n")
        return exc.exit_code


def _take(coordinator: HostCoordinator, events: "SimpleQueue[Any]") -> bool:
    """Take the pool, however long the platform database is away. False: asked to stop meanwhile."""
    while True:
        try:
            coordinator.take()
        except TransientError as exc:
            log.warning("the pool cannot be taken yet: %s", exc.message)
        else:
            return True
        try:
            events.get(timeout=_TRY_AGAIN_S)
        except Empty:
            continue
        return False


def _serve(
    chosen: argparse.Namespace,
    coordinator: HostCoordinator,
    events: "SimpleQueue[Any]",
    *,
    partition: Partition,
    watch_source: WatchSource,
) -> int:
    # From here on the lease is kept alive: Spark takes longer to start than the lease lasts on a busy machine.
    coordinator.start()
    code = InstalledCode()
    running = code.look()
    try:
        context = start_spark(chosen.pool, slots=chosen.slots)
        try:
            streams = SparkStreams(
                context, host=str(this_process()), ends=events, partition=partition, idle_after_s=chosen.idle_after
            )
            host = StreamHost(
                streams=streams,
                coordinator=coordinator,
                roster=StreamRoster(
                    slots=streams.slots, reserve=chosen.reserve, stop_grace_s=_STOP_GRACE_S, code=running
                ),
                events=events,
                watch_source=watch_source,
                rollout=CodeRollout(chosen.pool, running),
                look_at_code=code.look,
                code_s=chosen.look_at_code,
            )
            log.info("serving: pool=%s slots=%d", chosen.pool, streams.slots)
            with watching_for_late_postings(chosen.pool):
                host.run()
        finally:
            end_spark(context)
    finally:
        coordinator.close()
    log.info("stopped: pool=%s", chosen.pool)
    return 0


@contextmanager
def watching_for_late_postings(pool: str, *, every_s: float = 15.0) -> Iterator[None]:
    """Beside the streams of a pool, in a thread and with a session of its own."""
    with closing(registry.late_postings()) as records:
        tools = LateTools(records, registry.log_reader, registry.log_images, registry.signed_rows)
        watch = LateWatch(lambda: records.watched(pool), tools, every_s=every_s)
        watch.start()
        try:
            yield
        finally:
            watch.close()


def start_spark(pool: str, *, slots: int) -> SparkContext:
    # Whoever stops this process may signal its whole group. The JVM must outlive that until the streams have stopped,
    # and a JVM that is born with an ignored signal goes on ignoring it.
    handlers = _on_stop_signals(signal.SIG_IGN)
    jars = iceberg_jars()
    try:
        gateway = launch_gateway(configured(SparkConf(), pool, slots=slots, jars=jars))  # type: ignore[no-untyped-call]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    # Once more: what spark-submit or spark-defaults say is known to the JVM alone.
    conf = configured(SparkConf(_jvm=gateway.jvm), pool, slots=slots, jars=jars)
    context = SparkContext(conf=conf, gateway=gateway)
    # The end of each task is reported by this driver in one line; Spark would add a hundred of Java to it.
    context.setLogLevel("FATAL")
    return context


def end_spark(context: SparkContext) -> None:
    """Stop Spark and wait for its JVM, if it is ours."""
    gateway: Any = context._gateway  # noqa: SLF001 (PySpark offers no other way to wait for its own child)
    process = getattr(gateway, "proc", None)
    try:
        context.stop()
        gateway.shutdown()
    except (Py4JError, OSError) as exc:
        log.warning("Spark did not stop in order: %s", exc)
    if process is not None:
        process.stdin.close()
        _wait_for(process)


def _wait_for(process: Any) -> None:
    deadline = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if process.poll() is None:
        process.kill()
        process.wait()


Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


def _on_stop_signals(handler: Handler) -> dict[signal.Signals, Handler]:
    return {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
