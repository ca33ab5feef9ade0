"""Where streams stand, and what becomes of one that is cut off."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import Follower
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.database import Database
from seamline.platform.followers import STREAM_CUT_OFF, PlatformFollowers
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.ports import StreamReport
from tests.integration.platform_database import Server, database_of_its_own, plan

STREAM = StreamId("settlement", "warehouse")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with database_of_its_own("followers_platform") as made:
        migrate.upgrade(made.open)
        yield made


def test_a_stream_that_is_cut_off_ends_with_an_alarm_and_needs_no_log_until_it_is_wanted_again(server: Server) -> None:
    opened = Database(server.open)
    director, followers = PlatformStreamDirector(opened), PlatformFollowers(lambda: Database(server.open))
    store, maintenance = PlatformStore(opened), PlatformMaintenance(opened)

    def alarms() -> list[tuple[str, str, str]]:
        return [(one.kind, one.subject, one.message) for one in store.open_alarms()]

    with closing(opened):
        director.want(STREAM, plan_json=plan_to_json(plan()))
        assert followers.of(plan().source.name) == (), "it has never said where it stands"
        with closing(server.open()) as session:
            put_report(session, StreamReport(STREAM, "streaming", next_offset=700))
            put_report(session, StreamReport(STREAM, "backing_off"))
        assert followers.of(plan().source.name) == (Follower(STREAM, 700),)
        assert followers.of("another") == ()
        for _ in range(2):
            followers.cut_off(STREAM, "too far behind")
        assert (director.wanted_of("settlement"), followers.of(plan().source.name)) == ((), ())
        assert maintenance.cut_off() == {STREAM}
        assert alarms() == [(STREAM_CUT_OFF, str(STREAM), "too far behind")]
        director.want(STREAM, plan_json=plan_to_json(plan()))
        assert (maintenance.cut_off(), alarms()) == (frozenset(), [])
        # Where it stood then would cut it off again, before it has said where it begins now.
        assert followers.of(plan().source.name) == ()
