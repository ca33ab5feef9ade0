"""What is kept of late postings, on a real PostgreSQL: which takes are watched, from where, and that nothing counts
twice."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from seamline.domain.audit import Kind
from seamline.domain.errors import Refused
from seamline.domain.late_posting import LatePosting, LogPlace
from seamline.domain.sign_off import SignState
from seamline.plan.document import plan_to_json
from seamline.platform.audit import entries
from seamline.platform.database import Database
from seamline.platform.late_postings import PlatformLatePostings
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.ports import StreamReport
from tests.integration.platform_database import STREAM, Server, plan
from tests.integration.test_platform import POSITION
from tests.integration.test_signatures import DAY, faults, publish, seen, sign
from tests.integration.test_signatures import server as server
from tests.integration.test_signatures import signatures as signatures
from tests.integration.test_signatures import store as store
from tests.integration.test_signatures import template as template

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
POSTING = LatePosting("r1", DAY.isoformat(), "account", '{"id": "7"}', 3, "0-1-9", AT)


@pytest.fixture
def late(server: Server) -> Iterator[PlatformLatePostings]:
    with closing(PlatformLatePostings(Database(server.open))) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _wanted(server: Server) -> None:
    with closing(PlatformStreamDirector(Database(server.open))) as director:
        director.want(STREAM, plan_json=plan_to_json(plan()))


def stands_at(server: Server, offset: int, *, state: str = "streaming", topic: str = "t1") -> LogPlace:
    with server.open() as session:
        report = StreamReport(STREAM, state, epoch=1, topic_id=topic, next_offset=offset, position=POSITION)
        put_report(session, report)
    return LogPlace(topic, offset, POSITION)


def test_a_signed_take_is_watched_from_where_its_stream_stood_when_its_night_began(
    store: PlatformStore, signatures: PlatformSignatures, late: PlatformLatePostings, server: Server
) -> None:
    began = stands_at(server, 10)
    store.start_run(run_id="r0", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=DAY)
    assert late.watched("default") == ()
    take = publish(store)
    assert late.watched("default") == ()
    stands_at(server, 20)
    assert late.watched("default") == ()
    sign(signatures, "ann")
    now = stands_at(server, 30)
    (one,) = late.watched("default")
    assert (one.stream, one.now, [two.run_id for two in one.takes]) == (STREAM, now, ["r1"])
    assert (one.takes[0].place, one.takes[0].cut_position, one.takes[0].is_begun) == (began, POSITION, False)
    assert late.watched("another pool") == ()
    signatures.reopen(take, who="bob", reason="x")
    assert late.watched("default") == ()


def test_a_stream_that_says_no_place_is_not_looked_at(
    store: PlatformStore, signatures: PlatformSignatures, late: PlatformLatePostings, server: Server
) -> None:
    publish(store)
    sign(signatures, "ann")
    for state, topic in (("catching_up", "t1"), ("streaming", "")):
        stands_at(server, 10, state=state, topic=topic)
        assert late.watched("default") == ()
    stands_at(server, 10)
    assert len(late.watched("default")) == 1


def test_postings_and_the_place_move_together_and_a_repeat_or_a_second_host_adds_nothing(
    store: PlatformStore, signatures: PlatformSignatures, late: PlatformLatePostings, server: Server
) -> None:
    stands_at(server, 10)
    publish(store)
    sign(signatures, "ann")
    now = stands_at(server, 30)
    (one,) = late.watched("default")
    other = replace(POSTING, table="audit", key="", rows=1)
    for _ in range(2):
        late.keep(STREAM, one.takes, now=now, found=[POSTING, other], unknown={})
    watch = seen(signatures).watch
    assert watch is not None and watch.looked_at is not None
    assert [(two.table, two.rows, two.transactions, two.last_at) for two in watch.tables] == [
        ("account", 3, 1, AT),
        ("audit", 1, 1, AT),
    ]
    assert late.of_take("r1", "warehouse", limit=5) == (other, POSTING)
    assert late.of_take("r1", "warehouse", limit=1) == (other,)
    (again,) = late.watched("default")
    assert (again.takes[0].place, again.takes[0].is_begun) == (now, True)
    late.keep(STREAM, again.takes, now=stands_at(server, 40), found=[], unknown={"r1": "the log was pruned"})
    assert (kept := seen(signatures).watch) is not None and kept.unknown == "the log was pruned"


def test_what_came_late_flags_the_signature_until_the_date_is_taken_again(
    store: PlatformStore,
    signatures: PlatformSignatures,
    late: PlatformLatePostings,
    server: Server,
) -> None:
    stands_at(server, 10)
    publish(store)
    with pytest.raises(Refused, match="nothing to restate"):
        signatures.require_restatable("settlement", DAY, "late")
    sign(signatures, "ann")
    now = stands_at(server, 30)
    (one,) = late.watched("default")
    late.keep(STREAM, one.takes, now=now, found=[POSTING], unknown={})
    flagged = seen(signatures)
    assert (flagged.state, flagged.is_overtaken, flagged.is_clean) == (SignState.SIGNED, True, False)
    with pytest.raises(Refused, match="needs a reason"):
        signatures.require_restatable("settlement", DAY, "")
    signatures.require_restatable("settlement", DAY, "late")
    signatures.enter_restatement("settlement", DAY, who="bob", reason="late", run="manual__1")
    with server.open() as session, session.transaction():
        (entry,) = entries(session, "kind = 'restatement asked'", ())
    assert (entry.kind, entry.who, entry.subject.run_id) == (Kind.RESTATEMENT_ASKED, "bob", "r1")
    assert '"reason":"late","run":"manual__1","version":1' in entry.document
    second = publish(store, "r2", by="bob", version=2)
    assert late.watched("default") == ()
    assert seen(signatures).state is SignState.RESTATED
    assert (seen(signatures, second).waits, seen(signatures, second).late_in_words) == (True, [])
    with pytest.raises(Refused, match="bob asked for this run"):
        sign(signatures, "bob", "late", take=second)
    sign(signatures, "ann", "late", take=second)
    (one,) = late.watched("default")
    assert [two.run_id for two in one.takes] == ["r2"]
    assert faults(server) == []
