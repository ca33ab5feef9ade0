"""Signatures under published cuts, on a real PostgreSQL: who may sign and re-open, what a signature is bound to, that a
signed take is locked, and that the log of acts holds each of them."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from seamline.domain.audit import FROM_PAGE, Act, Kind, Subject, verdict_hash
from seamline.domain.break_work import Doing, Order
from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.errors import Refused
from seamline.domain.runs import ASKED_BY, REASON, Cut, Reconciliation, RunState, Scope
from seamline.domain.sign_off import ReasonRequired, SignOff, SignOrder, SignState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.audit import append, entries
from seamline.platform.audit_check import check
from seamline.platform.breaks import Compared, Wanted
from seamline.platform.database import Database
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.signatures import PlatformSignatures, Take
from seamline.platform.store import PlatformStore
from seamline.platform.work import Done, PlatformWork
from tests.integration.platform_database import Server, database_of_its_own, know_secret, plan
from tests.integration.test_platform import POSITION, reconciliation, start_run

DAY = date(2026, 3, 1)
AS_OF = datetime(2026, 3, 2, tzinfo=UTC)
CUT = Cut("settlement", "warehouse", DAY, 1, "r1", POSITION, AS_OF, ("account",), Verdict.MATCH)
TAKE = Take("settlement", "warehouse", DAY, 1)


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    with database_of_its_own("signatures_test_migrated") as server:
        migrate.upgrade(server.open)
        know_secret(server)
        yield server


@pytest.fixture
def server(template: Server) -> Iterator[Server]:
    """Its own for each test: nothing can empty what was signed."""
    made = Server("signatures_test")
    made.admin("drop database if exists signatures_test with (force)")
    made.admin(f"create database signatures_test template {template.name}")
    yield made
    made.admin("drop database if exists signatures_test with (force)")


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


@pytest.fixture
def signatures(server: Server) -> Iterator[PlatformSignatures]:
    with closing(PlatformSignatures(Database(server.open))) as signatures:
        yield signatures


def found(run_id: str = "r1", verdict: Verdict = Verdict.MATCH) -> Reconciliation:
    tables = reconciliation(verdict).tables[:1] if verdict is Verdict.BREAK else ()
    return replace(reconciliation(verdict), run_id=run_id, tables=tables)


def publish(
    store: PlatformStore,
    run_id: str = "r1",
    verdict: Verdict = Verdict.MATCH,
    *,
    by: str = "",
    reason: str = "",
    evidence: Mapping[str, Any] = MappingProxyType({}),
    **cut: Any,
) -> Take:
    made = replace(CUT, run_id=run_id, verdict=verdict, **cut)
    day = made.business_date
    store.start_run(run_id=run_id, sync=made.sync, kind="nightly", plan_json=plan_to_json(plan()), business_date=day)
    store.put_result(run_id, ASKED_BY, by)
    store.put_result(run_id, REASON, reason)
    found_then = found(run_id, verdict)
    store.save_reconciliation(replace(found_then, business_date=day, evidence={**found_then.evidence, **evidence}))
    store.save_cut(made)
    return Take(made.sync, made.destination, made.business_date, made.version)


def seen(signatures: PlatformSignatures, take: Take = TAKE) -> SignOff:
    of_date = signatures.of_date(take.sync, take.business_date)
    return next(one for one in of_date if (one.destination, one.version) == (take.destination, take.version))


def sign(signatures: PlatformSignatures, who: str, reason: str = "", *, take: Take = TAKE, **order: Any) -> None:
    hashed = order.pop("verdict_hash", None) or seen(signatures, take).verdict_hash
    signatures.sign(take, SignOrder(who, reason, hashed, **order))


def faults(server: Server) -> list[str]:
    wrong: list[str] = []
    with server.open() as session:
        check(session, sync="", anchors=(), report=wrong.append)
    return wrong


def kinds(server: Server) -> list[tuple[str, str]]:
    with server.open() as session, session.transaction():
        return [(entry.kind, entry.who) for entry in entries(session, "kind in ('signed', 'reopened')", ())]


def test_a_published_cut_is_prepared_by_who_asked_for_its_run_and_waits_for_a_signature(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store)
    publish(store, "r2", by="ann", reason="a posting was missing", business_date=date(2026, 3, 2))
    newest, first = signatures.kept(["settlement"])
    assert (first.state, first.preparer, first.waits) == (SignState.PREPARED, "scheduler", True)
    assert (newest.preparer, newest.business_date) == ("ann", date(2026, 3, 2))
    assert (newest.prepared_reason, first.prepared_reason) == ("a posting was missing", "")
    assert first.verdict_hash == verdict_hash(found())
    assert signatures.kept(["other"]) == ()


def test_a_signature_is_entered_with_the_hash_of_its_verdict_and_a_repeat_adds_nothing(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store)
    for _ in range(2):
        sign(signatures, "ann", "looked at")
    one = seen(signatures)
    assert (one.state, one.waits) == (SignState.SIGNED, False)
    (signature,) = one.acts
    assert (signature.who, signature.reason, signature.verdict_hash) == ("ann", "looked at", verdict_hash(found()))
    assert one.signature == signature
    assert kinds(server) == [("signed", "ann")]
    with server.open() as session, session.transaction():
        (entry,) = entries(session, "kind = 'signed'", ())
    assert entry.subject == Subject("settlement", "warehouse", DAY, "r1", "cut")
    assert f'"verdict_hash":"{verdict_hash(found())}","version":1' in entry.document
    assert faults(server) == []


def test_who_asked_for_the_run_does_not_sign_and_the_database_refuses_it_too(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store, by="ann")
    # A name that is the same person in another form.
    for who in ("ann", " ann: ", "Ann"):
        with pytest.raises(Refused, match="asked for this run"):
            sign(signatures, who)
        statement = (
            "insert into audit_entry (kind, who, origin, sync, destination, business_date, run_id, scope, document)"
            " values ('signed', %s, 'page', 'settlement', 'warehouse', '2026-03-01', 'r1', 'cut', '{}')"
        )
        with server.open() as session, pytest.raises(psycopg.Error, match="asked for run r1"):
            session.execute(statement, (who,))
    assert (seen(signatures).acts, kinds(server)) == ((), [])
    sign(signatures, "bob")
    assert kinds(server) == [("signed", "bob")]


def test_another_person_re_opens_for_a_reason_and_that_one_does_not_sign_again(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store)
    with pytest.raises(Refused, match="not signed"):
        signatures.reopen(TAKE, who="bob", reason="late")
    sign(signatures, "ann")
    for who, reason, why in (("ann", "x", "ann has signed it"), ("bob", "", "needs a reason")):
        with pytest.raises(Refused, match=why):
            signatures.reopen(TAKE, who=who, reason=reason)
    for _ in range(2):
        signatures.reopen(TAKE, who="bob", reason="a payment came late")
    one = seen(signatures)
    assert (one.state, one.waits, one.signature) == (SignState.REOPENED, True, None)
    assert "a payment came late; waits for a signature" in one.in_words()
    with pytest.raises(Refused, match="bob has re-opened it"):
        sign(signatures, "bob")
    sign(signatures, "ann")
    assert seen(signatures).state is SignState.SIGNED
    assert kinds(server) == [("signed", "ann"), ("reopened", "bob"), ("signed", "ann")]
    assert faults(server) == []


@pytest.mark.parametrize(
    ("acts", "why"),
    [
        ("('signed', 'ann'), ('signed', 'bob')", "run r1 is signed by ann"),
        ("('reopened', 'bob')", "is not signed, so nobody re-opens it"),
        ("('signed', 'ann'), ('reopened', ' ann : ')", "ann signed run r1, so another person re-opens it"),
        ("('signed', 'ann'), ('reopened', 'Ann')", "Ann signed run r1, so another person re-opens it"),
        ("('signed', 'ann'), ('reopened', 'bob'), ('signed', 'BOB')", "BOB re-opened run r1, so another person signs"),
        ("('signed', 'ann'), ('reopened', 'bob'), ('signed', 'bob')", "bob re-opened run r1, so another person signs"),
    ],
)
def test_the_database_itself_holds_the_second_person(store: PlatformStore, server: Server, acts: str, why: str) -> None:
    publish(store)
    statement = (
        "insert into sign_off (run_id, destination, sync, business_date, version, act, who, reason, verdict,"
        " verdict_hash) select 'r1', 'warehouse', 'settlement', '2026-03-01', 1, act, who, 'x', 'MATCH', 'h'"
        f" from (values {acts}) given (act, who)"
    )
    with server.open() as session, pytest.raises(psycopg.Error, match=why):
        session.execute(statement.encode())


@pytest.mark.parametrize("statement", ["update sign_off set who = 'eve'", "delete from sign_off", "truncate sign_off"])
def test_the_database_refuses_to_change_or_remove_a_signature(
    store: PlatformStore, signatures: PlatformSignatures, server: Server, statement: str
) -> None:
    publish(store)
    sign(signatures, "ann")
    with server.open() as session, pytest.raises(psycopg.Error, match="signatures are kept"):
        session.execute(statement.encode())


def test_what_the_person_has_not_seen_is_not_signed(store: PlatformStore, signatures: PlatformSignatures) -> None:
    publish(store)
    with pytest.raises(Refused, match="another one than the one that you have seen"):
        sign(signatures, "ann", verdict_hash="0" * 64)
    with pytest.raises(Refused, match="not published"):
        signatures.sign(replace(TAKE, version=7), SignOrder("ann", "", ""))


def test_a_reason_is_needed_where_a_date_is_not_clean_and_where_the_declaration_says_so(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    broken = publish(store, verdict=Verdict.BREAK)
    with pytest.raises(Refused, match="needs a reason: it is not clean"):
        sign(signatures, "ann", take=broken)
    sign(signatures, "ann", "two rows, known", take=broken)
    clean = publish(store, "r2", business_date=date(2026, 3, 2))
    with pytest.raises(Refused, match="reconcile.sign"):
        sign(signatures, "ann", take=clean, reason_required=ReasonRequired.ALWAYS)
    sign(signatures, "ann", take=clean)


def test_another_verdict_of_the_take_makes_its_signature_void(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store)
    sign(signatures, "ann")
    store.save_reconciliation(replace(found(), evidence={"compared": "again"}))
    one = seen(signatures)
    assert (one.state, one.waits, one.signature) == (SignState.VOID, True, None)
    assert "its verdict is another one since" in one.in_words()
    with pytest.raises(Refused, match="is not signed"):
        signatures.reopen(TAKE, who="bob", reason="x")
    sign(signatures, "ann", "looked again")
    assert seen(signatures).state is SignState.SIGNED
    assert faults(server) == []


def test_a_newer_version_restates_what_was_signed_and_waits(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store)
    sign(signatures, "ann")
    second = publish(store, "r2", version=2)
    newest, first = signatures.of_date("settlement", DAY)
    assert (first.state, newest.state, newest.waits) == (SignState.RESTATED, SignState.PREPARED, True)
    assert first.signature is not None and newest.earlier == first.signature
    assert newest.in_words().startswith("version 1 signed by ann at ")
    assert "; restated by version 2, prepared by scheduler" in newest.in_words()
    with pytest.raises(Refused, match="restated by version 2"):
        sign(signatures, "bob", take=TAKE)
    # It has a history: nobody signs it by the way.
    with pytest.raises(Refused, match="version 1 signed by ann"):
        signatures.sign_clean({second: newest.verdict_hash}, SignOrder("bob", "", ""))
    sign(signatures, "bob", take=second)
    assert seen(signatures, second).in_words().startswith("signed by bob")


def test_clean_dates_are_signed_together_each_by_its_own_hash(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    takes = [publish(store, f"r{day}", business_date=date(2026, 3, day)) for day in (1, 2, 3)]
    wanted = {take: seen(signatures, take).verdict_hash for take in takes}
    for _ in range(2):
        signatures.sign_clean(wanted, SignOrder("ann", "", ""))
    assert [one.state for one in signatures.kept(["settlement"])] == [SignState.SIGNED] * 3
    with server.open() as session, session.transaction():
        log = [entry.document for entry in entries(session, "kind = 'signed'", ())]
    assert len(log) == 3
    assert all(f'"verdict_hash":"{hashed}"' in text for hashed, text in zip(wanted.values(), log, strict=True))
    assert faults(server) == []


@pytest.mark.parametrize(
    ("cut", "why"),
    [({"verdict": Verdict.BREAK}, "is not clean"), ({"partial": True}, "is not clean"), ({"by": "ann"}, "ann asked")],
)
def test_nothing_is_signed_together_with_what_is_not_clean(
    store: PlatformStore, signatures: PlatformSignatures, cut: Mapping[str, Any], why: str
) -> None:
    clean = publish(store)
    other = publish(store, "r2", business_date=date(2026, 3, 2), **cut)
    wanted = {take: seen(signatures, take).verdict_hash for take in (clean, other)}
    with pytest.raises(Refused, match=why):
        signatures.sign_clean(wanted, SignOrder("ann", "because", ""))
    assert [one.acts for one in signatures.kept(["settlement"])] == [(), ()]


def test_a_date_of_which_a_later_run_has_published_nothing_is_signed_by_itself(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store)
    assert seen(signatures).goes_by_bulk
    start_run(store, "r2")
    one = seen(signatures)
    assert not one.goes_by_bulk and "a later run of the date goes on, and has published nothing yet" in one.in_words()
    with pytest.raises(Refused, match="a later run"):
        signatures.sign_clean({TAKE: one.verdict_hash}, SignOrder("ann", "", ""))
    store.finish_run("r2", state=RunState.FAILED)
    assert "a later run of the date has failed, and has published nothing" in seen(signatures).in_words()
    sign(signatures, "ann")


def test_a_signed_take_is_locked_until_somebody_re_opens_it(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store, verdict=Verdict.BREAK)
    explained = Act(
        Kind.EXPLAINED, Subject("settlement", "warehouse", DAY, "r1", "cut"), {"break": "x"}, "eve", FROM_PAGE
    )
    sign(signatures, "ann", "known")
    with server.open() as session, pytest.raises(psycopg.Error, match="run r1 is signed by ann: re-open it first"):
        append(session, explained)
    with server.open() as session:
        # Live tables are no take of the date.
        append(session, replace(explained, subject=Subject("settlement", "warehouse", None, "r1", "live")))
    signatures.reopen(TAKE, who="bob", reason="to be explained")
    with server.open() as session:
        append(session, explained)
    # Who worked on it does not sign.
    with pytest.raises(Refused, match="eve asked for run r1 or worked on it"):
        sign(signatures, "eve", "done")
    assert faults(server) == []


def test_no_act_on_all_breaks_of_another_comparison_changes_one_of_a_signed_take(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    """Each by itself was refused; all of a comparison of live tables with the same breaks were not."""
    publish(store, verdict=Verdict.BREAK)
    live = replace(found("live", Verdict.BREAK), scope=Scope.LIVE, business_date=None)
    store.save_reconciliation(live)
    explain = Order(Doing.EXPLAIN, "eve", reason="timing")
    sign(signatures, "ann", "known")
    with closing(PlatformWork(Database(server.open))) as work:
        with pytest.raises(Refused, match="none of 2 breaks is in a state for it; run r1 is signed by ann"):
            work.act_on_all("settlement", Compared("live", "warehouse", Scope.LIVE), Wanted(), explain)
        signatures.reopen(TAKE, who="bob", reason="to be explained")
        done = work.act_on_all("settlement", Compared("live", "warehouse", Scope.LIVE), Wanted(), explain)
    assert (done, faults(server)) == (Done(2), [])


def test_who_explained_a_break_signs_no_other_take_with_it_before_another_person_has(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    """The database held the run alone beside which it was explained: the next take, or date, went by one person."""
    publish(store, verdict=Verdict.BREAK)
    with closing(PlatformWork(Database(server.open))) as work:
        order = Order(Doing.EXPLAIN, "eve", reason="timing")
        assert work.act_on_all("settlement", Compared("r1", "warehouse", Scope.CUT), Wanted(), order) == Done(2)
    second = publish(store, "r2", Verdict.BREAK, version=2)
    with pytest.raises(Refused, match="Eve has explained breaks of run r2, so another person decides"):
        sign(signatures, "Eve", "known", take=second)
    sign(signatures, "ann", "known", take=second)
    third = publish(store, "r3", Verdict.BREAK, business_date=DAY + timedelta(days=1))
    sign(signatures, "eve", "carried forward", take=third)  # what ann has signed since
    assert faults(server) == []


def test_a_signature_outlives_its_cut(store: PlatformStore, signatures: PlatformSignatures, server: Server) -> None:
    publish(store)
    sign(signatures, "ann")
    with closing(PlatformMaintenance(Database(server.open))) as maintenance:
        maintenance.drop_cuts("settlement", "warehouse", [(DAY, 1)])
    one = seen(signatures)
    assert (one.state, one.is_kept) == (SignState.SIGNED, False)
    assert signatures.kept(["settlement"]) == ()
    assert [found.version for found in signatures.kept(["settlement"], since=DAY)] == [1]
    assert faults(server) == []


def later_night(store: PlatformStore, run_id: str, *found_of_day: SinceCut) -> None:
    """The night of the day after, with what it has found of the day."""
    day = date(2026, 3, 2)
    store.start_run(run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=day)
    evidence = {DATE_BEFORE: date_before_to_json(found_of_day)}
    at = datetime.now(UTC)
    store.save_reconciliation(replace(found(run_id), business_date=day, evidence=evidence, started_at=at, ended_at=at))


def test_rows_that_come_late_for_a_signed_date_are_flagged_until_it_is_taken_again(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store)
    sign(signatures, "ann")
    late = SinceCut("account", DAY.isoformat(), 1, rows_in_cut=3, rows_now=5)
    later_night(store, "r2", late, SinceCut("audit", DAY.isoformat(), 1, rows_in_cut=3, rows_now=3, is_same=True))
    one = seen(signatures)
    assert (one.state, one.is_overtaken, one.is_clean, one.late) == (SignState.SIGNED, True, False, (late,))
    assert one.late_in_words == [
        "account: late rows: 2 since its cut, version 1; run that date again for a new version"
    ]
    # A night that could not look knows nothing better; one that found the same rows does.
    later_night(store, "r3", SinceCut("account", DAY.isoformat(), 1, unknown="the source was away"))
    assert seen(signatures).is_overtaken
    second = publish(store, "r4", version=2)
    assert seen(signatures, second).late == () and seen(signatures, second).waits
    later_night(store, "r5", replace(late, rows_now=3, is_same=True))
    assert seen(signatures).late == ()


def test_a_date_with_late_rows_is_not_signed_together_with_clean_ones_and_needs_a_reason(
    store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store)
    later_night(store, "r2", SinceCut("account", DAY.isoformat(), 1, rows_in_cut=3, rows_now=2))
    with pytest.raises(Refused, match="is not clean .account: rows gone: 1"):
        signatures.sign_clean({TAKE: seen(signatures).verdict_hash}, SignOrder("ann", "x", ""))
    with pytest.raises(Refused, match="needs a reason"):
        sign(signatures, "ann")


# ---- tampering -----------------------------------------------------------------------------------------------------

WHERE = "settlement → warehouse 2026-03-01, run r1"
TAMPERED = {
    "the person": ("update sign_off set who = 'eve'", "the signature was changed after entry 4 (signed)"),
    "the reason": ("update sign_off set reason = 'all is well'", "the signature was changed after entry 4 (signed)"),
    "the moment": (
        "update sign_off set at = at - interval '1 day'",
        "the signature was changed after entry 4 (signed)",
    ),
    "the verdict": ("update sign_off set verdict = 'BREAK'", "the signature was changed after entry 4 (signed)"),
    "the hash of the verdict": (
        f"update sign_off set verdict_hash = '{'0' * 64}'",
        "the signature was changed after entry 4 (signed)",
    ),
    "the version": ("update sign_off set version = 2", "the signature was changed after entry 4 (signed)"),
    "what was done": ("update sign_off set act = 'reopened'", "the signature was changed after entry 4 (signed)"),
    "a signature that is gone": ("delete from sign_off", "the signature of entry 4 (signed) is missing"),
}


def tamper(server: Server, statement: str) -> None:
    """As whoever may do everything, with the triggers passed by."""
    with server.open() as session:
        session.execute("set session_replication_role = replica")
        assert session.execute(statement.encode()).rowcount > 0


@pytest.mark.parametrize("what", TAMPERED)
def test_a_signature_that_was_changed_or_removed_behind_the_log_is_named(
    store: PlatformStore, signatures: PlatformSignatures, server: Server, what: str
) -> None:
    publish(store)
    sign(signatures, "ann", "known")
    statement, fault = TAMPERED[what]
    tamper(server, statement)
    assert faults(server) == [f"{WHERE}: {fault}"]
    (take,) = store.takes(TAKE.sync, DAY)
    assert (take.headline, take.recorded and take.recorded.faults) == ("ALTERED", (fault,))


def test_a_signature_that_was_inserted_beside_the_log_is_named(store: PlatformStore, server: Server) -> None:
    publish(store)
    tamper(
        server,
        "insert into sign_off values ('r1', 'warehouse', 1, 'settlement', '2026-03-01', 1, 'signed', 'eve', '',"
        " 'MATCH', 'h', now())",
    )
    assert faults(server) == [f"{WHERE}: signature 1 of the take was inserted: no entry names it"]


def test_nobody_signs_for_a_verdict_that_was_changed_behind_the_log(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    publish(store, verdict=Verdict.BREAK)
    tamper(server, "update reconciliation set verdict = 'MATCH'")
    with pytest.raises(Refused, match="is not the one that the log of acts has"):
        sign(signatures, "ann", "known")


def test_nobody_signs_for_a_version_that_was_made_clean_behind_the_log_together_with_others_or_alone(
    store: PlatformStore, signatures: PlatformSignatures, server: Server
) -> None:
    """The report said ALTERED and had no form; the overview's form for clean dates, and REST, let it be signed."""
    publish(store, verdict=Verdict.BREAK)
    tamper(server, "update cut set verdict = 'MATCH'")
    changed = "nobody signs for 2026-03-01 in warehouse: version 1 of the cut was changed after entry 3"
    with pytest.raises(Refused, match=changed):
        sign(signatures, "ann")
    hashed = seen(signatures).verdict_hash
    with pytest.raises(Refused, match=changed):
        signatures.sign_clean({TAKE: hashed}, SignOrder("ann", "", ""))
    assert kinds(server) == []
