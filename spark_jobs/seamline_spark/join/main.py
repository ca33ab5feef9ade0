"""The joining of a run's tables as a job: their incremental snapshot is a stream of its own, which lives in this
process."""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing

from seamline import registry, settings
from seamline.adapters import failpoints
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import TABLES
from seamline.plan.list_change import ListChange
from seamline.plan.model import Run, SyncPlan
from seamline.ports import Commit, Sink
from seamline.sync.incremental_snapshot import JoinPatience, JoinTools, join_stream
from seamline.sync.onboard import let_log_go, publish_each
from seamline_spark.session import as_an_application

log = logging.getLogger("seamline_spark.join")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="table_join", description="Lets tables enter and leave running streams.")
    parser.add_argument("--run", required=True, help="id of the run in the platform database")
    run_id = parser.parse_args(argv).run
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with as_an_application():
            join_run(run_id)
    except SeamlineError as exc:
        sys.stderr.write(f"table_join: {exc}\n")
        return exc.exit_code
    return 0


def join_run(run_id: str) -> Mapping[str, str]:
    """Change the tables in every destination; the position of each. The first error is raised when all were tried.
    Repeat-safe: a repeat finds done what is done."""
    with closing(registry.platform()) as store:
        run = store.run(run_id)
        change = ListChange.from_json(run.result[TABLES])
        positions = publish_each(run, store, lambda name: _join(run, name, change))
        if "snapshot" in run.result:
            with closing(registry.pruning_holds()) as holds:
                let_log_go(run, holds)
    return positions


def _join(run: Run, destination: str, change: ListChange) -> Commit:
    def open_sink(plan: SyncPlan) -> Sink:
        return registry.sink(plan, destination)

    armed = failpoints.from_environment(settings.process_environment()) or failpoints.ArmedFailpoints()
    with closing(registry.director()) as director:
        tools = JoinTools(
            director=director,
            open_log=lambda: registry.log_reader(run.plan),
            open_sink=open_sink,
            open_schema_guard=registry.schema_guard,
            failpoints=armed,
            patience=JoinPatience(held_max_s=run.plan.stream.held_max_s),
        )
        commit = join_stream(run, destination, change, tools=tools)
    log.info(
        "tables changed: sync=%s destination=%s added=%s again=%s removed=%s position=%s",
        run.sync, destination, change.added, change.again, change.removed, commit.ledger.position,
    )  # fmt: skip
    return commit
