"""The log of acts on a real PostgreSQL: what is entered with what is stored, what the database refuses, and that every
kind of tampering is named."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.lines import KafkaLines
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain import audit
from seamline.domain.audit import NOTHING_BEFORE, Act, Entry, Kind, Subject, sha256_of
from seamline.domain.decision import DECISION, Decision, DecisionState
from seamline.domain.errors import Refused
from seamline.domain.exported import exported_act, print_of
from seamline.domain.position import position_to_json
from seamline.domain.runs import ASKED_BY, SIGNED_BY, Cut, Reconciliation, Scope
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.audit import Head, PlatformAudit, append, entries
from seamline.platform.audit_anchor import AnchorTopic, anchor_files, send_anchor, write_anchor
from seamline.platform.audit_check import Checked, check
from seamline.platform.audit_verifier import PlatformAuditVerifier
from seamline.platform.database import Database, Session
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector
from seamline.sync.audit_round import Outcome
from tests.conftest import RunningStack
from tests.integration.platform_database import STREAM, Server, database_of_its_own, plan
from tests.integration.test_platform import POSITION, reconciliation, start_run

DAY = date(2026, 3, 1)
AS_OF = datetime(2026, 3, 2, tzinfo=UTC)
CUT = Cut("settlement", "warehouse", DAY, 1, "r1", POSITION, AS_OF, ("account",), Verdict.BREAK)
WHERE = "settlement → warehouse 2026-03-01, run r1"


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    with database_of_its_own("audit_test_migrated") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture
def server(template: Server) -> Iterator[Server]:
    """Its own for each test: nothing can empty the log of acts."""
    made = Server("audit_test")
    made.admin("drop database if exists audit_test with (force)")
    made.admin(f"create database audit_test template {template.name}")
    yield made
    made.admin("drop database if exists audit_test with (force)")


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


def logged(server: Server) -> list[Entry]:
    with server.open() as session, session.transaction():
        return list(entries(session, "true", ()))


def head(server: Server) -> Head:
    with closing(PlatformAudit(Database(server.open))) as log:
        found = log.head()
    assert found is not None
    return found


def faults(server: Server, *, anchors: Path | None = None, sync: str = "") -> list[str]:
    return checked(server, anchors=anchors, sync=sync)[0]


def checked(server: Server, *, anchors: Path | None = None, sync: str = "") -> tuple[list[str], Checked]:
    found: list[str] = []
    files = anchor_files(anchors) if anchors else ()
    with server.open() as session:
        counted = check(session, sync=sync, anchors=files, report=found.append)
    assert counted.faults == len(found)
    return found, counted


def tamper(server: Server, *statements: str) -> None:
    """As whoever may do everything, with the triggers passed by."""
    with server.open() as session:
        session.execute("set session_replication_role = replica")
        for statement in statements:
            assert session.execute(statement.encode()).rowcount > 0, statement


def approved(who: str = "ann", reason: str = "known") -> dict[str, Any]:
    asked = Decision.asked(("ann",), destinations=("warehouse",))
    return asked.answered(DecisionState.APPROVED, who=who, reason=reason).to_json()


def a_night(store: PlatformStore) -> Reconciliation:
    """Compared, asked, approved, published, and the signature kept."""
    start_run(store)
    found = reconciliation()
    store.save_reconciliation(found)
    store.put_result("r1", DECISION, None)
    store.put_result("r1", DECISION, Decision.asked(("ann",), destinations=("warehouse",)).to_json())
    store.put_result("r1", DECISION, approved())
    store.save_cut(CUT)
    store.save_reconciliation(replace(found, evidence={**found.evidence, SIGNED_BY: "ann: known"}))
    return found


# ---- what is entered -----------------------------------------------------------------------------------------------


def test_a_night_is_a_chain_of_acts_and_each_is_stored_as_it_was_entered(store: PlatformStore, server: Server) -> None:
    found = a_night(store)
    log = logged(server)
    kinds = ["log opened", "compared", "asked", "approved", "published", "signature kept"]
    assert [(entry.number, entry.kind) for entry in log] == list(enumerate(kinds, start=1))
    assert [entry.who for entry in log] == ["migration", "scheduler", "scheduler", "ann", "scheduler", "scheduler"]
    assert [entry.previous for entry in log] == [NOTHING_BEFORE, *(entry.hash for entry in log[:-1])]
    assert f'"verdict_hashes":{{"warehouse":"{audit.verdict_hash(found)}"}}' in log[3].document
    assert f'"verdict_hash":"{audit.verdict_hash(found)}"' in log[4].document
    found_faults, counted = checked(server)
    assert found_faults == []
    assert (counted.entries, counted.verdicts, counted.decisions, counted.cuts) == (6, 1, 1, 1)


def test_an_act_that_stands_for_itself_is_an_entry_and_verdicts_know_their_newest_one(
    store: PlatformStore, server: Server
) -> None:
    found = a_night(store)
    chosen = {"table": "a", "kind": ""}
    act = exported_act(
        Subject("settlement"), print_of(b"rows"), who="ann", origin="page", file="x.csv", rows=1, chosen=chosen
    )
    with closing(PlatformAudit(Database(server.open))) as log:
        entered = [log.enter(act), log.enter(act)]
        of_verdicts = log.verdict_entries(["r1", "x"])
        assert log.head() == entered[1]
    assert [one.number for one in entered] == [7, 8], "to take it away twice is two acts"
    document = json.loads(logged(server)[-1].document)
    assert document == {
        "bytes": 4, "file": "x.csv", "filter": {"table": "a"}, "format": "csv", "rows": 1,
        "sha256": hashlib.sha256(b"rows").hexdigest(),
    }  # fmt: skip
    ((place, entry),) = of_verdicts.items()
    assert (place, entry.number) == (("r1", "warehouse", "cut"), 6)
    assert json.loads(entry.document)["hash"] == audit.verdict_hash(
        replace(found, evidence={**found.evidence, SIGNED_BY: "ann: known"})
    )
    assert faults(server) == []


def test_the_database_and_python_write_the_same_text_whatever_is_in_it(store: PlatformStore, server: Server) -> None:
    odd = 'a "b" \\ \x01\x1f\x7f\t\n\r\b\f / ü 中文 🦀 \u2028 %s \':x'
    subject = Subject(odd, odd, date(2026, 1, 2), odd, odd)
    with server.open() as session:
        append(session, Act(Kind.COMPARED, subject, {odd: [1, 0.5, 1e16, Decimal("1.20"), None, True]}, "ann", odd))
    assert faults(server) == [f"{subject}: the verdict of entry 2 (compared) is missing"]
    entry = logged(server)[1]
    assert entry.content_hash == sha256_of(entry.content)


def test_a_reconciliation_with_every_kind_of_value_has_the_same_hash_when_it_is_read(
    store: PlatformStore, server: Server
) -> None:
    evidence: dict[Any, Any] = {
        "seconds": [0.1, 1e-7, 1e16, -0.0, 2.0, 1e300, 12345.678],
        "whole": 2**70,
        "texts": ["ü", "", None, True, {"nested": {"b": 1, "a": ()}}],
        3: "a number as a key",
    }
    totals = [
        replace(reconciliation().tables[0].totals[0], group=("EUR", ""), source_sum=Decimal(text))
        for text in ("1E+2", "-0.00", "NaN", "0.1000", "-99999999999999999999.999999")
    ]
    breaks = [replace(one, beside={"currency": "ü", "amount": None}) for one in reconciliation().tables[0].breaks]
    table = replace(reconciliation().tables[0], totals=tuple(totals), breaks=tuple(breaks))
    one = replace(reconciliation(), tables=(table,), evidence=evidence)
    store.save_reconciliation(one)
    assert faults(server) == []


def test_a_repeat_enters_nothing_again(store: PlatformStore, server: Server) -> None:
    start_run(store)
    for _ in range(2):
        store.save_reconciliation(reconciliation())
        store.save_cut(CUT)
    decision = approved()
    for _ in range(2):
        store.put_result("r1", DECISION, decision)
    assert [entry.kind for entry in logged(server)] == ["log opened", "compared", "published", "approved"]
    assert faults(server) == []


def test_another_take_a_withdrawn_question_and_a_cut_that_ends_are_acts(store: PlatformStore, server: Server) -> None:
    a_night(store)
    store.put_result("r1", DECISION, None)
    store.put_result("r1", DECISION, None)
    store.save_reconciliation(reconciliation(Verdict.MATCH))
    with closing(PlatformMaintenance(Database(server.open))) as maintenance:
        assert maintenance.drop_cuts("settlement", "warehouse", [(DAY, 1)]) == 1
    assert [entry.kind for entry in logged(server)[6:]] == ["question withdrawn", "compared", "cut expired"]
    assert faults(server) == []


def test_a_stream_that_is_paused_or_goes_on_is_an_act_of_who_did_it(server: Server) -> None:
    with closing(PlatformStreamDirector(Database(server.open))) as director:
        with pytest.raises(Refused):
            director.pause(STREAM, by="ann on host")
        director.want(STREAM, plan_json=plan_to_json(plan()))
        director.pause(STREAM, by="ann on host", reason="the payer asked")
        director.resume(STREAM, by="bob on host", reason="it is back")
        director.restart(STREAM, by="bob on host")
    acts = [(entry.kind, entry.who, entry.document) for entry in logged(server)[1:]]
    assert acts == [
        ("stream paused", "ann on host", '{"reason":"the payer asked"}'),
        ("stream resumed", "bob on host", '{"reason":"it is back"}'),
        ("stream restarted", "bob on host", "{}"),
    ]


def test_an_act_that_cannot_be_entered_leaves_nothing_stored(store: PlatformStore, server: Server) -> None:
    start_run(store)
    store.put_result("r1", ASKED_BY, "ann")
    store.save_reconciliation(reconciliation())
    # Case makes no other person.
    for who in ("ann", "Ann", " ANN:"):
        with pytest.raises(Refused, match=f"{who.strip(' :')} asked for run r1"):
            store.put_result("r1", DECISION, approved(who))
    assert store.run("r1").result.get(DECISION) is None
    store.put_result("r1", DECISION, approved("bob"))
    assert [(entry.kind, entry.who) for entry in logged(server)[1:]] == [("compared", "ann"), ("approved", "bob")]
    assert faults(server) == []


# ---- one chain -----------------------------------------------------------------------------------------------------


def test_writers_at_once_make_one_chain(server: Server) -> None:
    def write(writer: int) -> None:
        with server.open() as session:
            for number in range(25):
                append(session, Act(Kind.COMMENTED, Subject(f"s{writer}"), {"n": number}, f"writer {writer}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [entry.number for entry in logged(server)] == list(range(1, 102))
    assert faults(server) == []


def test_a_second_writer_waits_for_the_first_and_follows_what_it_committed(server: Server) -> None:
    with server.open() as first, server.open() as second, ThreadPoolExecutor(1) as pool:
        with first.transaction():
            append(first, Act(Kind.COMMENTED, Subject("a"), {}, "ann"))
            waiting = pool.submit(append, second, Act(Kind.COMMENTED, Subject("b"), {}, "bob"))
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
        waiting.result(timeout=10)
    assert [entry.subject.sync for entry in logged(server)] == ["", "a", "b"]
    assert faults(server) == []


@pytest.mark.parametrize(
    "statement",
    [
        "update audit_entry set who = 'eve' where number = 1",
        "delete from audit_entry",
        "truncate audit_entry",
        "insert into audit_entry (kind, who, origin, sync, destination, run_id, scope, document)"
        " values ('invented', 'eve', '', '', '', '', '', '{}')",
    ],
)
def test_the_database_refuses_to_change_or_remove_an_entry_and_unknown_kinds(server: Server, statement: str) -> None:
    with server.open() as session, pytest.raises(psycopg.Error, match="only grows|audit_entry_kind_check"):
        session.execute(statement.encode())
    assert faults(server) == []


def test_number_moment_and_hashes_come_from_the_database_whatever_is_given(server: Server) -> None:
    with server.open() as session:
        session.execute(
            "insert into audit_entry values (7, '2000-01-01', 'commented', 'eve', '', '', '', null, '', '', '{}',"
            " 'x', 'x', 'x')"
        )
    assert logged(server)[-1].number == 2
    assert faults(server) == []


# ---- tampering -----------------------------------------------------------------------------------------------------

STORED = {
    "a byte of a value": (
        'update break set source_values = \'{"zulu": "9", "alpha": null}\' where ordinal = 0',
        f"{WHERE}: table account was changed after entry 6 (signature kept)",
    ),
    "a control total": (
        "update control_total set destination_sum = source_sum",
        f"{WHERE}: table account was changed after entry 6 (signature kept)",
    ),
    "a break that is gone": (
        "delete from break where ordinal = 1",
        f"{WHERE}: table account was changed after entry 6 (signature kept)",
    ),
    "the verdict of one table": (
        "update table_verdict set verdict = 'MATCH' where table_name = 'audit'",
        f"{WHERE}: table audit was changed after entry 6 (signature kept)",
    ),
    "a table that is gone": (
        "delete from table_verdict where table_name = 'audit'",
        f"{WHERE}: table audit was removed after entry 6 (signature kept)",
    ),
    "the headline": (
        "update reconciliation set verdict = 'MATCH'",
        f"{WHERE}: its header or evidence was changed after entry 6 (signature kept)",
    ),
    "evidence": (
        'update reconciliation set evidence = evidence || \'{"signed_by": "bob: known"}\'',
        f"{WHERE}: its header or evidence was changed after entry 6 (signature kept)",
    ),
    "a position that is none": (
        "update reconciliation set position = '{}'",
        f"{WHERE}: the verdict was changed after entry 6 (signature kept): it cannot be read any more"
        " (unknown kind of position: None)",
    ),
    "a verdict that is gone": (
        "delete from reconciliation",
        f"{WHERE}: the verdict of entry 6 (signature kept) is missing",
    ),
    "the name behind a decision": (
        "update run set result = jsonb_set(result, '{decision,who}', '\"bob\"')",
        "settlement 2026-03-01, run r1: the decision was changed after entry 4 (approved)",
    ),
    "the date of a decision": (
        "update run set business_date = '2026-03-02'",
        "settlement 2026-03-02, run r1: the decision was changed after entry 4 (approved)",
    ),
    "a decision that is gone": (
        "update run set result = result - 'decision'",
        "settlement 2026-03-01, run r1: the decision of entry 4 (approved) is missing",
    ),
    "a cut": (
        "update cut set verdict = 'MATCH'",
        f"{WHERE}: version 1 of the cut was changed after entry 5 (published)",
    ),
    "the run of a cut": (
        "update cut set run_id = 'r9'",
        "settlement → warehouse 2026-03-01, run r9: version 1 of the cut was changed after entry 5 (published)",
    ),
    "the date of a verdict": (
        "update reconciliation set business_date = '2026-03-02'",
        "settlement → warehouse 2026-03-02, run r1: its header or evidence was changed after entry 6 (signature kept)",
    ),
    "a cut that is gone": (
        "delete from cut",
        f"{WHERE}: version 1 of the cut, of entry 5 (published), is missing",
    ),
}
INSERTED = {
    "a verdict": (
        "insert into reconciliation (run_id, sync, destination, scope, business_date, mode, verdict, started_at,"
        " ended_at, evidence) values ('r9', 'settlement', 'warehouse', 'cut', '2026-03-01', '', 'MATCH', now(), now(),"
        " '{}')",
        "settlement → warehouse 2026-03-01, run r9: the verdict was inserted: no entry names it",
    ),
    "a decision": (
        "insert into run (run_id, sync, kind, business_date, plan_json, result) select 'r9', sync, kind, business_date,"
        " plan_json, result from run where run_id = 'r1'",
        "settlement 2026-03-01, run r9: the decision was inserted: no entry names it",
    ),
    "a cut": (
        "insert into cut select sync, destination, business_date, 2, 'r9', position, as_of, tables, verdict, partial"
        " from cut",
        "settlement → warehouse 2026-03-01, run r9: version 2 of the cut was inserted: no entry names it",
    ),
}


@pytest.mark.parametrize("what", STORED)
def test_what_was_changed_or_removed_behind_the_log_is_named(store: PlatformStore, server: Server, what: str) -> None:
    a_night(store)
    statement, fault = STORED[what]
    tamper(server, statement)
    assert faults(server) == [fault]
    assert faults(server, sync="settlement") == [fault]
    assert faults(server, sync="other") == []


@pytest.mark.parametrize("what", INSERTED)
def test_what_was_inserted_beside_the_log_is_named(store: PlatformStore, server: Server, what: str) -> None:
    a_night(store)
    statement, fault = INSERTED[what]
    tamper(server, statement)
    assert faults(server) == [fault]


APPROVED = "entry 4 (approved, settlement 2026-03-01, run r1)"
MOVED = "entry 5 (approved, settlement 2026-03-01, run r1)"
CHAIN = {
    "a name": (["update audit_entry set who = 'bob' where number = 4"], [f"{APPROVED}: its content was changed"]),
    "an entry that is gone": (
        ["delete from audit_entry where number = 3"],
        ["entry 3 is missing"],
    ),
    "entries that are gone": (
        ["delete from audit_entry where number in (3, 5)"],
        ["entry 3 is missing", "entry 5 is missing", f"{WHERE}: version 1 of the cut was inserted: no entry names it"],
    ),
    "two entries that changed places": (
        [
            "update audit_entry set number = -4 where number = 4",
            "update audit_entry set number = 4 where number = 5",
            "update audit_entry set number = 5 where number = -4",
        ],
        [
            f"entry 4 (published, {WHERE}): its number or a hash was changed",
            f"entry 4 (published, {WHERE}): it follows another entry than entry 3 as that is stored",
            f"{MOVED}: its number or a hash was changed",
            f"{MOVED}: it follows another entry than entry 4 as that is stored",
            f"entry 6 (signature kept, {WHERE}): it follows another entry than entry 5 as that is stored",
        ],
    ),
}


@pytest.mark.parametrize("what", CHAIN)
def test_what_was_changed_in_the_log_itself_is_named(store: PlatformStore, server: Server, what: str) -> None:
    a_night(store)
    statements, found = CHAIN[what]
    tamper(server, *statements)
    assert faults(server) == found


def rewritten(session: Session, first: int) -> None:
    """From this entry on, every hash as it should be for what is stored now."""
    with session.transaction():
        log = list(entries(session, "number >= %s", (first,)))
        before = session.execute("select hash from audit_entry where number = %s", (first - 1,)).fetchone()
        assert before is not None
        previous = before[0]
        for entry in log:
            content = sha256_of(entry.content)
            own = audit.link_hash(content_hash=content, number=entry.number, previous=previous)
            session.execute(
                "update audit_entry set content_hash = %s, previous = %s, hash = %s where number = %s",
                (content, previous, own, entry.number),
            )
            previous = own


def test_maintenance_verifies_the_chain_and_each_sync_by_itself(
    store: PlatformStore, server: Server, tmp_path: Path
) -> None:
    a_night(store)
    write_anchor(tmp_path, head(server))
    verifier = PlatformAuditVerifier(server.open, lambda: anchor_files(tmp_path))
    assert verifier.syncs() == ["settlement"]
    assert (verifier.chain(), verifier.stored("settlement"), verifier.stored("payroll")) == (Outcome(),) * 3
    tamper(server, "update reconciliation set verdict = 'MATCH'")
    assert verifier.chain() == verifier.stored("payroll") == Outcome()
    found = verifier.stored("settlement")
    assert found.lines == tuple(faults(server)) and found.faults == 1
    tamper(server, "delete from audit_entry where number = (select max(number) from audit_entry)")
    assert "which it names, is missing" in verifier.chain().lines[0]


def test_a_chain_that_was_written_again_differs_from_its_anchor(
    store: PlatformStore, server: Server, tmp_path: Path
) -> None:
    start_run(store)
    store.save_reconciliation(reconciliation())
    write_anchor(tmp_path, head(server))
    a_night(store)
    write_anchor(tmp_path, head(server))
    place = write_anchor(tmp_path, head(server)).name
    assert checked(server, anchors=tmp_path)[1].anchored == 6
    tamper(server, "update audit_entry set who = 'bob' where number = 4")
    with server.open() as session:
        session.execute("set session_replication_role = replica")
        rewritten(session, 4)
    assert faults(server) == []
    assert faults(server, anchors=tmp_path) == [
        f"anchor {place} line 2: entry 6 has another hash than when it was anchored; the chain was written again from"
        " there or from before"
    ]


def test_a_tail_that_was_cut_off_is_missed_by_the_anchor(store: PlatformStore, server: Server, tmp_path: Path) -> None:
    start_run(store)
    store.save_reconciliation(reconciliation())
    place = write_anchor(tmp_path, head(server))
    with place.open("a") as file:
        file.write("scribble\n")
    tamper(server, "delete from audit_entry where number = 2", "delete from reconciliation")
    assert faults(server) == []
    assert faults(server, anchors=tmp_path) == [
        f"anchor {place.name} line 1: entry 2, which it names, is missing",
        f"anchor {place.name} line 2: it is no anchor",
    ]


def test_a_topic_outside_of_the_database_is_an_anchor_too(
    store: PlatformStore, server: Server, stack: RunningStack
) -> None:
    settings = client_settings(stack.connection("kafka"))
    kept = KafkaLines(f"audit-{uuid.uuid4().hex[:8]}", settings)
    try:
        start_run(store)
        for _ in range(2):
            assert send_anchor(kept, head(server)) == f"topic {kept.topic}"
        a_night(store)
        send_anchor(kept, head(server))
        kept.append("scribble")
        assert kept.end() == 3
        tamper(server, "update audit_entry set who = 'bob' where number = 4")
        with server.open() as session:
            session.execute("set session_replication_role = replica")
            rewritten(session, 4)
        found: list[str] = []
        # A line behind what counts is not read.
        for end, broken in ((2, 1), (3, 2)):
            found.clear()
            with server.open() as session:
                check(session, sync="", anchors=[AnchorTopic(kept, end)], report=found.append)
            assert len(found) == broken
        assert "offset 1: entry 6 has another hash" in found[0]
        assert found[1] == f"anchor topic {kept.topic} offset 2: it is no anchor"
    finally:
        CaptureTopics(settings).delete(kept.topic)


# ---- older databases, and much of everything -----------------------------------------------------------------------


def test_what_an_older_version_has_stored_is_adopted_once(server: Server) -> None:
    server.admin("drop database audit_test with (force)")
    server.admin("create database audit_test")
    migrate.upgrade(server.open, to="v0008")
    with server.open() as session:
        session.execute(
            "insert into run (run_id, sync, kind, business_date, plan_json, result) values ('r1', 'settlement',"
            ' \'nightly\', \'2026-03-01\', \'{}\', \'{"decision": {"state": "approved", "who": "ann"}}\')'
        )
        number = session.execute(
            "insert into reconciliation (run_id, sync, destination, scope, business_date, mode, verdict, started_at,"
            " ended_at, evidence) values ('r1', 'settlement', 'warehouse', 'cut', '2026-03-01', '', 'MATCH', now(),"
            " now(), '{\"took\": 0.1}') returning reconciliation_id"
        ).fetchone()
        session.execute("insert into table_verdict values (%s, 0, 'account', 'MATCH', '', '', 3, 3, 0)", number)
        session.execute(
            "insert into cut values ('settlement', 'warehouse', '2026-03-01', 1, 'r1', %s, now(), '{account}', 'MATCH',"
            " false)",
            (Jsonb(position_to_json(POSITION)),),
        )
    migrate.upgrade(server.open)
    migrate.upgrade(server.open)
    kinds = ["verdict adopted", "cut adopted", "decision adopted", "log opened"]
    assert [(entry.kind, entry.who) for entry in logged(server)] == [(kind, "migration") for kind in kinds]
    assert faults(server) == []
    tamper(server, "update table_verdict set source_rows = 4")
    assert faults(server) == [f"{WHERE}: table account was changed after entry 1 (verdict adopted)"]


def test_ten_thousand_breaks_are_entered_in_one_short_entry(store: PlatformStore, server: Server) -> None:
    breaks = tuple(Break("account", BreakType.MISSING, f'["{n}"]', {"zulu": str(n)}, None) for n in range(10_000))
    table = TableVerdict("account", Verdict.BREAK, "x", breaks=breaks, breaks_total=len(breaks))
    store.save_reconciliation(replace(reconciliation(), scope=Scope.LIVE, tables=(table,)))
    assert len(logged(server)[1].document) < 1_000
    tamper(server, "delete from break where ordinal = 7777")
    assert faults(server) == [f"{WHERE}, live tables: table account was changed after entry 2 (compared)"]
