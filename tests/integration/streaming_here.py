"""A sync's stream in a thread of this process, by the orders of the platform database; started again as a stream host
does where it was fenced and is wanted once more since."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from seamline import registry
from seamline.domain.errors import Fenced
from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.platform.control import PlatformStreamControl
from seamline.sync.span_loop import run_stream


@contextmanager
def streaming(plan: SyncPlan) -> Iterator[None]:
    """Into the plan's one destination. It is wanted until the end of the block, and must not fail before."""
    (destination,) = plan.destination_names
    stream, errors = plan.stream_id(destination), list[BaseException]()

    def run() -> None:
        try:
            _run_as_its_host(plan, stream)
        except BaseException as exc:
            errors.append(exc)
            raise

    thread = threading.Thread(target=run)
    with closing(registry.director()) as director:
        director.want(stream, plan_json=plan_to_json(plan))
        thread.start()
        try:
            yield
        finally:
            director.unwant(stream)
            thread.join(timeout=60)
    assert not errors
    assert not thread.is_alive()


def _run_as_its_host(plan: SyncPlan, stream: StreamId) -> None:
    """A stream that was fenced goes on where somebody wants it once more."""
    known = _want_number(stream)
    while True:
        try:
            return _run(plan, stream)
        except Fenced:
            before, known = known, _want_number(stream)
            if known == before:
                raise


def _run(plan: SyncPlan, stream: StreamId) -> None:
    destination = stream.destination
    control = PlatformStreamControl(stream, plan_json=plan_to_json(plan))
    schema_guard = registry.schema_guard(plan)
    try:
        with (
            closing(registry.log_reader(plan)) as reader,
            closing(registry.sink(plan, destination)) as sink,
            control,
        ):
            run_stream(plan, destination, reader=reader, sink=sink, control=control, schema_guard=schema_guard)
    finally:
        if schema_guard is not None:
            schema_guard.close()


def _want_number(stream: StreamId) -> int:
    with closing(registry.director()) as director:
        return next((one.want_number for one in director.wanted_of(stream.sync) if one.stream == stream), -1)
