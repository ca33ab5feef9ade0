"""The snapshot of an onboarding as a job: all tables of the sync staged at one position, and proven equal to it."""

import argparse
import logging
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from seamline import registry, settings
from seamline.adapters import failpoints
from seamline.bulk import load_end
from seamline.bulk.resume import Resumes
from seamline.domain.errors import SeamlineError
from seamline.domain.load_progress import LOADING, LoadSoFar, load_to_json
from seamline.domain.runs import TABLES
from seamline.plan.list_change import ListChange, entering_only
from seamline.plan.model import Run
from seamline.platform.attempts import RecordsOfAttempt
from seamline.platform.store import PlatformStore
from seamline.sync.onboard import staged_snapshot
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from seamline_spark.session import Application
from seamline_spark.snapshot.bulk_read import run_reader

log = logging.getLogger("seamline_spark.snapshot")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="snapshot_load", description="Stages all tables of a run's sync at one place."
    )
    parser.add_argument("--run", required=True, help="id of the run in the platform database")
    run_id = parser.parse_args(argv).run
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        application = Application("seamline snapshot_load")
        try:
            load(application, run_id)
        finally:
            application.stop()
    except SeamlineError as exc:
        sys.stderr.write(f"snapshot_load: {exc}\n")
        return exc.exit_code
    return 0


def _what_to_read(run: Run) -> Run:
    """A run that changes the tables of a running stream reads only those that enter."""
    change = run.result.get(TABLES)
    return run if change is None else entering_only(run, ListChange.from_json(change))


def load(application: Application, run_id: str) -> Mapping[str, Any]:
    """Take the snapshot of a run; its result is kept as `result["snapshot"]`. A repeat takes a new one, but for that of
    an attempt that was interrupted behind its load."""
    attempt = secrets.token_hex(8)
    with closing(registry.platform()) as store:
        kept = RecordsOfAttempt(store, attempt)
        kept.begin(run_id)
        # Behind that: what an attempt before has written down is all that it ever will.
        run = _what_to_read(store.run(run_id))
        if not run.plan.tables:
            log.info("no table enters: sync=%s", run.sync)
            return {"loads": {}}
        if load_end.is_loaded(run):
            return _let_go(run, store)
        pacer = registry.reading_pacer(run.plan.source, run_id)
        # Before the run keeps the log: a wait costs nobody anything.
        pacer.begin(lambda why: store.put_result(run_id, LOADING, load_to_json(LoadSoFar.waiting(why))))
        with closing(registry.pruning_holds()) as holds:
            reader = run_reader(
                application,
                run,
                resumes=Resumes(holds, attempt=attempt),
                on_progress=lambda so_far: store.put_result(run_id, LOADING, load_to_json(so_far)),
                pacer=pacer,
            )
            records = load_end.RecordsWhileHeld(kept, [reader])
            tools = SnapshotTools(
                source=registry.logged_source(run.plan),
                open_log=lambda: registry.log_reader(run.plan),
                open_read=reader.open_read,
                open_staged=reader.open_staged,
                holds=holds,
                records=records,
                failpoints=failpoints.from_environment(settings.process_environment()) or failpoints.ArmedFailpoints(),
                pacer=pacer,
            )
            snapshot = load_end.load(run, records, [reader], lambda: take_snapshot(run, tools))
            store.put_result(run_id, LOADING, None)
    _log_tables(run, snapshot)
    return snapshot


def _let_go(run: Run, store: PlatformStore) -> Mapping[str, Any]:
    log.info("all tables of %s are staged: the attempt before was interrupted behind its load", run.run_id)
    with closing(registry.pruning_holds()) as holds:
        Resumes(holds).forget(run)
    store.put_result(run.run_id, LOADING, None)
    return staged_snapshot(run)


def _log_tables(run: Run, snapshot: Mapping[str, Any]) -> None:
    for destination, loads in snapshot["loads"].items():
        for one in loads:
            log.info(
                "table staged: sync=%s table=%s destination=%s rows=%d position=%s",
                run.sync, one["table"], destination, one["rows"], snapshot["position"],
            )  # fmt: skip
