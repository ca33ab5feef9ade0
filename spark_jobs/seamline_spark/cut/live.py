"""What the cut of a destination's live tables needs: a barrier whose destination keeps hold of what it opens."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from seamline import registry
from seamline.domain.date_before import PublishedTable
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, Run
from seamline.ports import ReadView, Unarmed
from seamline.sync.barrier import Aligned, Barrier, Patience
from seamline.sync.derived import Derive
from seamline.sync.late_rows import DateBefore
from seamline.sync.live_cut import LiveCutTools, Pinning


def live_cut_tools(run: Run, destination: DestinationPlan, *, date_before: DateBefore, derive: Derive) -> LiveCutTools:
    plan = run.plan.held_by(destination.name)
    pinning = Pinning(lambda count: registry.pin_live(plan, destination, count, run_id=run.run_id))
    aligned_at: list[Position] = []

    pacer = registry.comparing_pacer(plan.source)

    @contextmanager
    def aligned(views: int) -> Iterator[Aligned]:
        if pacer is not None:
            pacer.begin()
        with closing(registry.director()) as director, closing(registry.sink(plan, destination.name)) as sink:
            barrier = Barrier(
                plan.stream_id(destination.name),
                director,
                registry.compared_source(plan, destination.name),
                sink,
                pinning.open,
                patience=Patience.of(plan),
                failpoints=registry.failpoints() or Unarmed(),
            )
            with barrier.aligned(views) as both:
                aligned_at.append(both.position)
                yield both

    @contextmanager
    def open_cut(destination: DestinationPlan, published: Sequence[PublishedTable]) -> Iterator[ReadView]:
        with closing(registry.published_view(plan, destination, published, position=aligned_at[-1])) as view:
            yield view

    return LiveCutTools(
        aligned, pinning, date_before, open_cut, derive, pacer=pacer, is_closed=partial(registry.is_closed, plan)
    )
