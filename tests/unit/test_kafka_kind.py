"""Topics as a kind of destination: they have a stream and no cuts, and what cannot be honoured is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError
from seamline.domain.level import WRITTEN_UNDER
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages, concerned
from seamline.registry import with_level
from seamline.sinks.kafka.options import KafkaOptions, options_of
from seamline.spec.load import load_declarations
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import MATCH, reconciliation

FEED = "destination: feed\nkind: kafka\nconnection: kafka_feed\nprefix: bank\npartitions: 6\n"
FILE, SYNC_FILE = "destinations/feed.yaml", "syncs/settlement.yaml"
BESIDE = SYNC.replace("[warehouse]", "[warehouse, feed]")


def declared(folder: Path, feed: str = FEED, sync: str = BESIDE) -> Path:
    return write_declarations(folder, {FILE: feed, SYNC_FILE: sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_a_declaration_becomes_a_plan_of_a_destination_without_cuts(plan: SyncPlan) -> None:
    feed = plan.destination("feed")
    assert (feed.kind, feed.connection, feed.namespace, feed.no_cuts) == ("kafka", "kafka_feed", "bank", True)
    assert options_of(feed) == KafkaOptions("bank", "json", 6, -1, 900)
    assert plan_from_json(plan_to_json(plan)) == plan
    kind = sink_kind("kafka")
    assert isinstance(kind, ReadsBack)
    assert not isinstance(kind, HoldsCuts)


def test_nights_leave_it_out_and_say_so(plan: SyncPlan) -> None:
    about = {kind: concerned(plan, kind).destination_names for kind in all_stages(plan)}
    assert about.pop("nightly") == {"warehouse"}
    assert set(about.values()) == {frozenset({"warehouse", "feed"})}
    said = " ".join(explain(plan).split())
    assert "live tables in bank, no cuts: nights leave it out" in said


def test_a_run_keeps_the_level_that_its_guarantee_gives_and_explain_says_it(plan: SyncPlan) -> None:
    found = replace(reconciliation(MATCH), destination="feed")
    levels = {
        guarantee: with_level(replace(plan, guarantee=guarantee), found).evidence["level"]["level"]
        for guarantee in ("exactly_once", "at_least_once")
    }
    assert levels["exactly_once"] == "one commit moves all tables of the sync and the ledger"
    assert "the control topic names those that do not count" in levels["at_least_once"]
    assert f"with `guarantee: at_least_once`: {levels['at_least_once']}" in described(sink_kind("kafka"))


def test_a_run_says_exactly_once_of_nothing_that_was_written_under_less(plan: SyncPlan) -> None:
    """The level was that of the declaration, also where the stream still ran by the one of before."""
    found = replace(reconciliation(MATCH), destination="feed", evidence={WRITTEN_UNDER: "at_least_once"})
    kept = with_level(plan, found).evidence["level"]
    assert (plan.guarantee, kept["guarantee"]) == ("exactly_once", "at_least_once")
    assert kept["level"].startswith("each change at least once")


def test_a_sync_whose_only_destination_holds_no_cuts_has_no_nights(tmp_path: Path) -> None:
    sync = SYNC.replace("[warehouse]", "[feed]")
    with pytest.raises(ConfigError, match=r"destination `feed` \(kafka\) cannot hold cuts"):
        load_declarations(declared(tmp_path, sync=sync))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("prefix: bank.topics", "at most 60 letters of ASCII"),
        ("format: avro", "format"),
        ("partitions: 0", "partitions"),
        ("writer_connection: other", "one login makes topics"),
    ],
)
def test_a_key_that_it_cannot_honour_is_refused(tmp_path: Path, changed: str, said: str) -> None:
    key = changed.partition(":")[0]
    lines = [line for line in FEED.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(ConfigError, match=said):
        load_declarations(declared(tmp_path, "\n".join([*lines, changed, ""])))


def test_its_acls_are_of_its_own_topics_and_transactions(plan: SyncPlan) -> None:
    script = sink_kind("kafka").grant_script(plan.destination("feed"), "", logins=DestinationLogins("feeder"))
    for words in ("--allow-principal User:feeder", "prefixed --transactional-id bank."):
        assert words in script
    lines = script.splitlines()
    assert {line.rpartition("--topic ")[2] for line in lines if "Delete" in line} == {
        "bank.",
        "bank_stage.",
        "bank_incremental_",
    }, "and none of another destination, as bank2"
