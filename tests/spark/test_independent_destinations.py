"""One sync into PostgreSQL and MariaDB: one destination is away for a while, then fails for good. The other one does
not notice, and status and alarms name only the one that is concerned.

A bank on MariaDB with writers at work, its capture, Kafka, the stream host, both destinations: nothing is a fake. The
second destination is on the bank's own server, behind a link that can be cut.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.cli import status_text
from seamline.cli.seen import look_at_streams, newest_verdicts
from seamline.domain.calendar import last_ended
from seamline.domain.ledger import LedgerRow
from seamline.domain.runs import EXPECTATIONS, NOT_STAGED, Reconciliation, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, NightlyPlan, StreamPlan, SyncPlan
from seamline.ports import Marker
from seamline.sync import stream_state
from seamline.sync.barrier import Patience
from seamline.sync.cut import publish_cut, staged_in
from seamline.sync.nightly_cut import CutTools, take_conclusive_cut
from seamline.sync.onboard import publish
from seamline.sync.repetition import NEEDS_A_PERSON
from seamline.sync.snapshot import take_snapshot
from seamline_airflow.stream_health import look, troubles
from seamline_spark.compare.main import compare_run
from tests.conftest import RunningStack
from tests.fault.soak.link import Link, State, link_to
from tests.integration.bank_writers import writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb, mariadb_destination, mariadb_writer_of, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.integration.snapshot_run import Records, run_of, tools_of
from tests.spark.chains import SCRIPT, TABLES
from tests.spark.hosts import Hosts, hosts_of, uri
from tests.waiting import wait_until

NAME = "independent_test"
ZONE = "Asia/Shanghai"


@dataclass
class Office:
    bank: Captured
    plan: SyncPlan
    link: Link
    archive: Connection
    hosts: Hosts

    def ledger(self, destination: str) -> LedgerRow:
        with closing(registry.sink(self.plan, destination)) as sink:
            ledger = sink.read_ledger(self.plan.stream_id(destination))
        assert ledger is not None
        return ledger

    def state(self, destination: str) -> str:
        found = self.hosts.director.latest_report(self.plan.stream_id(destination))
        return found.state if found else ""

    def applies(self, destination: str) -> None:
        """What was committed before now is there within the seconds that a stream may take."""
        marker = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
        self.bank.source.commit_marker(marker)

        def is_there() -> bool:
            return self.ledger(destination).last_marker == marker.id

        within_s = self.plan.stream.lag_max_s
        wait_until(is_there, timeout_s=within_s, what=f"what was committed to be in {destination}", every_s=0.5)

    def status(self) -> dict[str, str]:
        """The lines about streams that `./seamline status` prints, by destination."""
        streams = look_at_streams(self.hosts.store)
        cuts, live, zone, _ = newest_verdicts(self.hosts.store, self.plan.sync)
        text = status_text.render(cuts, live, list(streams.states.values()), zone=zone)
        lines = [line for line in text.splitlines() if line.startswith("stream ")]
        return {line.partition("@")[2].partition(":")[0]: line for line in lines}

    def alarms(self) -> dict[str, str]:
        """What the open alarms and those that `seamline__streams` would raise now say, by their subject."""
        return {one.subject: one.message for one in (*troubles(look()), *self.hosts.store.open_alarms())}

    def alarm_is_about(self, *destinations: str) -> bool:
        return self.alarms().keys() == {str(self.plan.stream_id(one)) for one in destinations}

    def night(self, day: date) -> str:
        run_id = f"{self.plan.sync}/nightly/{day}/{uuid.uuid4().hex}"
        store = self.hosts.store
        store.start_run(
            run_id=run_id, sync=self.plan.sync, kind="nightly", plan_json=plan_to_json(self.plan), business_date=day
        )
        run = store.run(run_id)
        reader = RunReader(run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))
        tools = CutTools(
            open_read=reader.open_read,
            open_staged=reader.open_staged,
            derive=lambda *_: pytest.fail("nothing is derived"),
            lateness=lambda *_: None,
            date_before=lambda *_: (),
            open_cut=reader.open_cut,
            records=store,
        )
        take_conclusive_cut(run, tools)
        store.put_result(run_id, EXPECTATIONS, {"verdict": "MATCH", "checked": 1, "failed": []})
        run = store.run(run_id)
        for destination in staged_in(run):
            with closing(registry.cuts(destination)) as publisher:
                publish_cut(run, destination.name, publisher=publisher, records=store)
        store.finish_run(run_id, state=RunState.FAILED if run.result[NOT_STAGED] else RunState.SUCCEEDED)
        return run_id


@pytest.fixture
def office(stack: RunningStack, tmp_path: Path) -> Iterator[Office]:
    with ExitStack() as around:
        bank = around.enter_context(captured(NAME))
        warehouse = around.enter_context(postgres_database(f"{NAME}_warehouse"))
        archive = around.enter_context(mariadb_destination(f"{NAME}_archive"))
        link = around.enter_context(link_to(archive.host, archive.port))
        behind_it = replace(archive, host="127.0.0.1", port=link.port)
        around.enter_context(destination_known_by_id(warehouse, warehouse.database))
        around.enter_context(known_by_id(behind_it, archive.connection_id, "mysql"))
        writer = mariadb_writer_of(behind_it)
        around.enter_context(known_by_id(writer, writer.connection_id, "mysql"))
        plan = _onboarded(bank, warehouse, archive)
        hosts = around.enter_context(hosts_of(SCRIPT, tmp_path, name=f"{NAME}_platform"))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(hosts.platform))
        # A stream that tries in vain is worth an alarm after two minutes; who has to wait for that learns no more.
        patch.setattr(stream_state, "STILL_MAX_S", 20.0)
        for one in plan.destinations:
            hosts.director.want(plan.stream_id(one.name), plan_json=plan_to_json(plan.of_stream(one.name)))
        hosts.start("--slots", "4")
        yield Office(bank, plan, link, archive, hosts)


def _onboarded(bank: Captured, warehouse: Connection, archive: Connection) -> SyncPlan:
    name = archive.connection_id
    bank.plan = replace(
        bank.plan,
        destinations=(
            destination_plan(warehouse.database, "live"),
            DestinationPlan("archive", "mariadb", name, name, writer_connection=f"{name}_writer"),
        ),
        nightly=NightlyPlan(timezone=ZONE, as_of_max_s=26 * 3600),
        stream=StreamPlan(lag_max_s=60),
    )
    bank.ensure()
    run = run_of(bank, TABLES)
    run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
    for one in run.plan.destinations:
        with closing(registry.sink(run.plan, one.name)) as sink:
            publish(run, one.name, sink=sink)
    return run.plan


def noticed_within_three_minutes(office: Office) -> None:
    """By the database's own times: from the archive's last report as one that streamed to the one alarm of its end."""
    stream = office.plan.stream_id("archive")
    wait_until(
        lambda: [one for one in office.hosts.store.open_alarms() if one.subject == str(stream)],
        timeout_s=30,
        what="the alarm of its host",
    )
    (alarm,) = [one for one in office.hosts.store.open_alarms() if one.subject == str(stream)]
    assert alarm.kind == "stream_failed", "one end is one alarm"
    now = datetime.now(UTC)
    events = office.hosts.director.events(stream, since=now - timedelta(hours=1), until=now + timedelta(hours=1))
    ended = next(one.at for one in reversed(events) if one.state == "failed")
    assert timedelta(seconds=-5) < alarm.raised_at - ended < timedelta(seconds=180)


def test_a_destination_that_is_away_or_fails_for_good_is_noticed_by_nobody_but_who_looks_at_it(office: Office) -> None:
    with writing(office.bank.root, tables=TABLES, count=1) as writers:
        for destination in ("warehouse", "archive"):
            wait_until(lambda: office.state(destination) == "streaming", timeout_s=120, what="the cutover")  # noqa: B023
        epoch, archived = office.ledger("warehouse").epoch, office.ledger("archive")
        wait_until(lambda: office.alarm_is_about(), timeout_s=60, what="streams without an alarm", every_s=0.5)

        office.link.state = State.CUT
        wait_until(lambda: office.state("archive") == "backing_off", timeout_s=60, what="the archive to be missed")
        run_id = office.night(last_ended(datetime.now(UTC), timezone=ZONE))
        office.applies("warehouse")
        wait_until(office.alarms, timeout_s=60, what="an alarm", every_s=0.5)
        assert office.alarm_is_about("archive"), office.alarms()
        status = office.status()
        assert "streaming since" in status["warehouse"], status
        assert "still since" in status["archive"], status
        cuts = {one.destination: one for one in office.hosts.store.takes(office.plan.sync, date_of(run_id))}
        assert (cuts["warehouse"].publication.version, cuts["archive"].publication.version) == (1, None)
        assert cuts["archive"].compared is Verdict.NOT_RUN
        office.applies("warehouse")

        office.link.state = State.OPEN
        office.applies("archive")
        office.applies("warehouse")
        wait_until(lambda: office.alarm_is_about(), timeout_s=60, what="the alarm to end", every_s=0.5)
        assert office.ledger("archive").applied_transactions > archived.applied_transactions
        assert {one.destination: one.verdict for one in compared(office)} == {
            "warehouse": Verdict.MATCH,
            "archive": Verdict.MATCH,
        }

        with closing(mariadb(office.bank.root)) as session, session.cursor() as cursor:
            cursor.execute(f"DROP TABLE {office.archive.connection_id}.account")
        wait_until(lambda: office.state("archive") == "failed", timeout_s=60, what="the archive's stream to end")
        office.applies("warehouse")
        status = office.status()
        assert "account" in status["archive"] and "streaming since" in status["warehouse"], status
        assert office.alarm_is_about("archive"), office.alarms()
        noticed_within_three_minutes(office)
        found = {one.destination: one for one in compared(office)}
        assert found["warehouse"].verdict is Verdict.MATCH
        assert "the stream into archive has ended" in found["archive"].tables[0].reason
        assert "stream restart" in str(found["archive"].evidence[NEEDS_A_PERSON])
        took = found["archive"].ended_at - found["archive"].started_at
        assert took < timedelta(seconds=Patience().lease_s), "no lease was waited for"
        before = writers.committed
        wait_until(lambda: writers.committed > before, timeout_s=30, what="the bank to go on")
        office.applies("warehouse")
    assert office.ledger("warehouse").epoch == epoch, "its worker has run from the first minute to the last"


def date_of(run_id: str) -> date:
    return date.fromisoformat(run_id.split("/")[2])


def compared(office: Office) -> tuple[Reconciliation, ...]:
    run_id = f"{office.plan.sync}/reconcile/-/1"
    office.hosts.store.start_run(
        run_id=run_id, sync=office.plan.sync, kind="reconcile", plan_json=plan_to_json(office.plan)
    )
    return compare_run(run_id)
