"""What the cut of a destination's live tables needs: a barrier whose destination keeps hold of what it opens."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from seamline import registry
from seamline.plan.model import DestinationPlan, Run
from seamline.ports import Unarmed
from seamline.sync.barrier import Aligned, Barrier, Patience
from seamline.sync.live_cut import LiveCutTools, Pinning


def live_cut_tools(run: Run, destination: DestinationPlan) -> LiveCutTools:
    plan = run.plan
    pinning = Pinning(lambda count: registry.pin_live(plan, destination, count, run_id=run.run_id))

    @contextmanager
    def aligned(views: int) -> Iterator[Aligned]:
        with closing(registry.director()) as director, closing(registry.sink(plan, destination.name)) as sink:
            barrier = Barrier(
                plan.stream_id(destination.name),
                director,
                registry.source(plan),
                sink,
                pinning.open,
                patience=Patience.of(plan),
                failpoints=registry.failpoints() or Unarmed(),
            )
            with barrier.aligned(views) as both:
                yield both

    return LiveCutTools(aligned, pinning)
