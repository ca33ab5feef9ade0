"""The nightly cut as a job: one read at one position, staged, compared, derived tables computed; nothing published.

A verdict other than MATCH is a result, not a failure: the exit code says only whether the cut was staged and judged.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any, Protocol

from seamline import registry
from seamline.bulk import load_end
from seamline.bulk.read import RunReader
from seamline.bulk.resume import Resumes
from seamline.bulk.since_cut import way_of
from seamline.cluster.code_archive import code_in_use, with_code
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.load_progress import LOADING, load_to_json
from seamline.domain.position import OfDelivery, Position
from seamline.domain.runs import KEPT, TOOK_NOTHING, Cut, Receipt, Reconciliation
from seamline.domain.staged_cut import CutSource, Lateness, StagedCut, cut_from_json
from seamline.plan.model import DerivedTablePlan, DestinationPlan, Run, SyncPlan
from seamline.platform.attempts import RecordsOfAttempt
from seamline.platform.reconciliations import Detail
from seamline.platform.store import PlatformStore
from seamline.ports import Load
from seamline.sync.delivered import DeliveryInForce, kept_to_json, require_wanted
from seamline.sync.derived import Derived
from seamline.sync.late_rows import DateBefore, by_their_transforms
from seamline.sync.live_cut import LiveCutTools
from seamline.sync.nightly_cut import CutRecords, CutTools, made_of, take_conclusive_cut
from seamline_spark.cut.derived import derive, require_publishable
from seamline_spark.cut.live import live_cut_tools
from seamline_spark.session import Application
from seamline_spark.snapshot.bulk_read import run_reader

log = logging.getLogger("seamline_spark.cut")

# Each look finds another delivery in force only where one came since the look before.
_LOOKS_MAX = 5


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="nightly_cut", description="Stages and compares the cut of a run's date.")
    parser.add_argument("--run", required=True, help="id of the run in the platform database")
    run_id = parser.parse_args(argv).run
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    # Before a deployment beside it can change what is installed.
    code_in_use()
    try:
        application = Application("seamline nightly_cut")
        try:
            cut(application, run_id)
        finally:
            application.stop()
    except SeamlineError as exc:
        sys.stderr.write(f"nightly_cut: {exc}\n")
        return exc.exit_code
    return 0


def cut(application: Application, run_id: str) -> Mapping[str, StagedCut]:
    """Stage and compare the cut of a run; kept as `result["cut"]`. A repeat reads again at a new position, also within
    the run where the comparison was INCONCLUSIVE; but not where an attempt was interrupted behind its cut. Destinations
    in which the delivery of the date is in force already take nothing: they are kept as `KEPT`, and where none is left
    there is no cut."""
    with closing(registry.platform()) as store, closing(registry.pruning_holds()) as holds:
        resumes, readers = Resumes(holds), list[RunReader]()
        kept = RecordsOfAttempt(store, resumes.attempt)
        kept.begin(run_id)
        # Behind that: what an attempt before has written down is all that it ever will.
        run = store.run(run_id)
        # Which delivery is in force, each attempt looks anew: what the one before has found of that is gone.
        is_delivered = run.plan.nightly is not None and run.plan.nightly.is_delivered
        if load_end.is_loaded(run) and not is_delivered:
            return _let_go(run, store, resumes)
        records = _WithLevels(kept, run.plan, readers)
        cuts = load_end.load(run, records, readers, lambda: _all_taken(application, run, store, resumes, readers))
        store.put_result(run_id, LOADING, None)
    _log_cuts(cuts)
    return cuts


def _all_taken(
    application: Application, run: Run, store: PlatformStore, resumes: Resumes, readers: list[RunReader]
) -> Mapping[str, StagedCut]:
    run = replace(run, result={**run.result, KEPT: {}})
    # Here and not in the task: that may be tried again while its driver goes on.
    store.put_result(run.run_id, KEPT, None)
    store.put_result(run.run_id, TOOK_NOTHING, None)
    for _ in range(_LOOKS_MAX):
        try:
            return _taken(application, run, store, resumes, readers)
        except DeliveryInForce as known:
            run = _without(run, known, store)
            if not run.taking.plan.destinations:
                return {}
    raise TransientError(f"another delivery had come at each of {_LOOKS_MAX} looks", sync=run.sync)


def _without(run: Run, known: DeliveryInForce, store: PlatformStore) -> Run:
    """The run as it goes on, written down."""
    log.info("kept: sync=%s date=%s %s", run.sync, run.business_date, known.message)
    kept = kept_to_json(known.kept)
    run = replace(run, result={**run.result, KEPT: kept})
    store.put_result(run.run_id, KEPT, kept)
    store.put_result(run.run_id, TOOK_NOTHING, not run.taking.plan.destinations)
    return run


def _taken(
    application: Application, whole: Run, store: PlatformStore, resumes: Resumes, readers: list[RunReader]
) -> Mapping[str, StagedCut]:
    run, run_id = whole.taking, whole.run_id
    by_rows = made_of(run, CutSource.ROWS)
    pacer = registry.reading_pacer(run.plan.source, run_id)

    def derived(
        destination: DestinationPlan, table: DerivedTablePlan, bases: Mapping[str, Load], position: str
    ) -> Derived:
        return derive(application.session, destination, table, bases, run_id=run_id, position=position)

    def live(destination: DestinationPlan) -> LiveCutTools:
        require_publishable(application, run.plan.held_by(destination.name), destination)
        return live_cut_tools(run, destination, date_before=date_before_of(run, store), derive=derived)

    def admit(position: Position) -> None:
        if isinstance(position, OfDelivery) and run.business_date is not None:
            takes = store.takes(run.sync, run.business_date, detail=Detail.VERDICTS)
            published = store.cuts(run.sync, run.business_date)
            require_wanted(
                whole, position, takes=takes, published=published, plan_of=lambda run_id: store.run(run_id).plan
            )

    def read(part: Run) -> CutTools:
        reader = run_reader(
            application,
            part,
            resumes=resumes,
            on_progress=lambda so_far: store.put_result(run_id, LOADING, load_to_json(so_far)),
            pacer=pacer,
        )
        readers.append(reader)
        return CutTools(
            open_read=reader.open_read,
            open_staged=reader.open_staged,
            derive=derived,
            lateness=_lateness(run),
            date_before=date_before_of(run, store),
            open_cut=reader.open_cut,
            records=_WithLevels(RecordsOfAttempt(store, resumes.attempt), run.plan, readers),
            live=live,
            admit=admit,
            pacer=registry.comparing_pacer(part.plan.source),
            is_closed=partial(registry.is_closed, part.plan),
            forget=reader.forget,
        )

    tools = read(replace(by_rows, plan=by_rows.plan.of_cuts))
    way = way_of(by_rows, tools, read, history=store, holds=resumes.holds)
    return take_conclusive_cut(run, replace(tools, log=way))


def _log_cuts(cuts: Mapping[str, StagedCut]) -> None:
    for staged in cuts.values():
        for table in staged.tables:
            log.info(
                "table cut: sync=%s table=%s date=%s rows=%d late=%s verdict=%s position=%s",
                staged.sync, table.table, staged.business_date, table.rows, table.late_rows, table.verdict,
                staged.position,
            )  # fmt: skip
        for table_name, reason in staged.left_out.items():
            log.info("table left out: sync=%s table=%s %s", staged.sync, table_name, reason)


def _let_go(run: Run, store: PlatformStore, resumes: Resumes) -> Mapping[str, StagedCut]:
    log.info("the cut of %s is staged: the attempt before was interrupted behind it", run.run_id)
    resumes.forget(made_of(run, CutSource.ROWS))
    store.put_result(run.run_id, LOADING, None)
    return {name: cut_from_json(document) for name, document in run.result["cut"].items()}


@dataclass(frozen=True, slots=True)
class _WithLevels:
    """`CutRecords` that keep with each comparison what readers of its destination may rely on, and the code that
    made it. Written only while no other attempt of the run has taken over what `readers` have staged, or begun."""

    kept: CutRecords
    plan: SyncPlan
    readers: Sequence[RunReader]

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        with load_end.all_held(self.readers):
            self.kept.put_result(run_id, key, value)

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.kept.put_receipt(run_id, receipt)

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        with load_end.all_held(self.readers):
            self.kept.save_reconciliation(with_code(registry.with_level(self.plan, reconciliation)))


def _lateness(run: Run) -> Callable[[DestinationPlan, date, Load], Lateness | None]:
    def lateness(destination: DestinationPlan, business_date: date, load: Load) -> Lateness | None:
        with closing(registry.cuts(destination)) as cuts:
            return cuts.lateness(run.sync, load.table.name, business_date, staged_as=load.staged_as)

    return lateness


class Runs(Protocol):
    """What the platform database knows of earlier cuts."""

    def run(self, run_id: str) -> Run: ...

    def cuts(self, sync: str, business_date: date | None = None) -> Sequence[Cut]: ...


def date_before_of(run: Run, records: Runs) -> DateBefore:
    """Asks a destination for what it has published of the date before, and by which transforms."""

    def date_before(destination: DestinationPlan, business_date: date) -> Sequence[PublishedTable]:
        with closing(registry.cuts(destination)) as cuts:
            published = cuts.date_before(run.sync, business_date)

        def made_by(one: PublishedTable) -> SyncPlan:
            known = {(cut.destination, cut.version): cut.run_id for cut in records.cuts(run.sync, one.business_date)}
            run_id = known.get((destination.name, one.version), run.run_id)
            return records.run(run_id).plan.held_by(destination.name)

        return by_their_transforms(published, run.plan.held_by(destination.name), made_by)

    return date_before
