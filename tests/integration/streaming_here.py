"""A sync's stream in a thread of this process, by the orders of the platform database."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from seamline import registry
from seamline.plan.model import SyncPlan, plan_to_json
from seamline.platform.control import PlatformStreamControl
from seamline.sync.span_loop import run_stream


@contextmanager
def streaming(plan: SyncPlan) -> Iterator[None]:
    """Into the plan's one destination. It is wanted until the end of the block, and must not fail before."""
    (destination,) = plan.destination_names
    stream, errors = plan.stream_id(destination), []

    def run() -> None:
        control = PlatformStreamControl(stream, plan_json=plan_to_json(plan))
        schema_guard = registry.schema_guard(plan)
        try:
            with (
                closing(registry.log_reader(plan)) as reader,
                closing(registry.sink(plan, destination)) as sink,
                control,
            ):
                run_stream(plan, destination, reader=reader, sink=sink, control=control, schema_guard=schema_guard)
        except BaseException as exc:
            errors.append(exc)
            raise
        finally:
            if schema_guard is not None:
                schema_guard.close()

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
