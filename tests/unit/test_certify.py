"""The certificate's use case without servers: what counts as the same, what is raised, and that all is removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.certificate import Certificate, LeftOut, Parity, markdown
from seamline.domain.changes import Finding
from seamline.domain.errors import ConfigError, Refused, TerminalError, TransientError
from seamline.domain.probe import Default, Probe, StoredUnlike
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan, TablePlan
from seamline.sync import certify as use_case
from seamline.sync.certify import certify, own_plan
from seamline.sync.probe_run import CertifyTools, ProbeRun

TABLE = Table("account", (Column("id", Kind.INTEGER, "int", False), Column("rate", Kind.DOUBLE, "double")), ("id",))
SOURCE = SourcePlan("bank", "mariadb", "bank", "bank", "bank_capture", "bank", "seamline.bank.log", "seamline-bank")
PLAN = SyncPlan(
    "settlement",
    SOURCE,
    (DestinationPlan("warehouse", "postgres", "warehouse", "live"),),
    (TablePlan("account", table=TABLE),),
)
OWN = own_plan(PLAN, "bank_owner")
Rows = Mapping[str, Mapping[str, str | None]]


@dataclass
class View:
    """A side that holds the same texts in every row, but for what `other` says of a key."""

    texts: Mapping[str, str | None]
    other: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    position: str = "here"

    def rows(self, table: str, keys: Sequence[str]) -> Rows:
        return {key: {**self.texts, **self.other.get(key, {})} for key in keys if key not in self.lost}

    def close(self) -> None: ...


@dataclass
class World:
    """Source, destination, connector and topics in one; each step is noted."""

    source_view: View = field(default_factory=lambda: View({"id": "1", "rate": "0.1"}))
    stored_view: View = field(default_factory=lambda: View({"id": "1", "rate": "0.1"}))
    stored_unlike: Sequence[StoredUnlike] = ()
    met: Sequence[Finding] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Default] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    stuck: str = ""
    placeless: Mapping[str, str] = field(default_factory=dict)

    def version(self) -> str:
        return "1"

    def edge_values(self, table: Table) -> Mapping[str, Sequence[str]]:
        return {"id": ["1"], "rate": ["0.1"]}

    def refusals(self, table: Table, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        return {literal: reason for literal, reason in self.refused.items() if literal in literals}

    def defaults(self, table: Table) -> Mapping[str, Default]:
        return self.kept

    def limits(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        return {Kind.DOUBLE: [("huge", "stops")], Kind.DATE: [("none", "stops")]}

    def open_views(self, count: int) -> Sequence[View]:
        return [self.source_view]

    def type_of(self, column: Column) -> str:
        return "some type"

    def unlike(self, probe: Probe) -> Sequence[StoredUnlike]:
        return self.stored_unlike

    def findings(self) -> Sequence[Finding]:
        return self.met

    def without_place(self, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        return {literal: reason for literal, reason in self.placeless.items() if literal in literals}

    def prepare(self) -> None:
        self._note("prepare")

    def remove(self) -> None:
        self._note("remove schemas")

    def drop(self) -> None:
        self._note("drop tables")

    def delete(self) -> None:
        self._note("delete connector")

    def _note(self, what: str) -> None:
        self.done.append(what)
        if what == self.stuck and self.done.count(what) > 1:
            raise TransientError(f"{what} is stuck")


class Topics:
    def __init__(self, world: World) -> None:
        self._world = world

    def delete(self) -> None:
        self._world.done.append("delete topics")


def certified(world: World, plan: SyncPlan = PLAN) -> Certificate:
    def opened(_: SyncPlan, name: str) -> World:
        if name == "topics":
            raise ConfigError("kind 'kafka' cannot be certified", hint="leave that out")
        return world

    tools: Any = {
        "probes": world, "source": world, "connect": world, "topics": Topics(world),
        "open_log": None, "open_read": None, "open_sink": None, "open_schema_guard": None,
        "open_view": lambda plan, name: world.stored_view,
        "open_destination": opened,
    }  # fmt: skip
    return certify(plan, own_plan(plan, "bank_owner"), CertifyTools(**tools))


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run itself has tests on real servers."""
    for name in ("make", "send"):
        monkeypatch.setattr(ProbeRun, name, lambda self: None)


def unlike(certificate: Certificate) -> list[tuple[str, str, str | None, str | None]]:
    (destination,) = certificate.destinations
    return [(one.column, u.against, u.wanted, u.found) for one in destination.columns for u in one.unlike]


def test_paths_that_agree_with_each_other_and_with_the_source_are_the_same() -> None:
    certificate = certified(World())
    assert certificate.verdict is Parity.SAME
    assert certificate.limits == (("huge", "stops"),)
    assert certificate.destinations[0].position == "here"


def test_both_paths_wrong_in_the_same_way_are_different_from_the_source() -> None:
    certificate = certified(World(stored_view=View({"id": "2", "rate": "0.1"})))
    assert certificate.verdict is Parity.DIFFERENT
    assert {one[:2] for one in unlike(certificate)} == {("id", "source")}


def test_paths_that_differ_are_reported_with_both_texts() -> None:
    world = World(stored_unlike=[StoredUnlike("rate", 2, "-0", "0")])
    assert unlike(certified(world)) == [("rate", "snapshot", "-0", "0")]


def test_a_double_is_the_source_s_within_its_own_precision_and_not_beyond() -> None:
    near = View({"id": "1", "rate": "0.10000000000000002"})
    assert certified(World(stored_view=near)).verdict is Parity.SAME
    far = View({"id": "1", "rate": "0.1000001"})
    assert {one[0] for one in unlike(certified(World(stored_view=far)))} == {"rate"}


@pytest.mark.parametrize("side", ["source_view", "stored_view"])
def test_a_row_that_is_missing_on_a_side_is_different_in_every_column(side: str) -> None:
    lost = View({"id": "1", "rate": "0.1"}, lost=frozenset({"3"}))
    certificate = certified(World(**cast(Any, {side: lost})))
    assert {one[0] for one in unlike(certificate)} == {"id", "rate"}


def test_a_column_that_takes_none_of_its_values_is_not_sent() -> None:
    certificate = certified(World(refused={"0.1": "too large"}))
    assert certificate.verdict is Parity.NOT_SENT
    assert [column.verdict for column in certificate.destinations[0].columns] == [Parity.SAME, Parity.NOT_SENT]


def test_a_value_that_a_destination_has_no_place_for_is_not_sent_and_is_listed_with_the_destination() -> None:
    certificate = certified(World(placeless={"0.1": "it stops by name"}))
    (destination,) = certificate.destinations
    assert destination.columns[1].left_out == (LeftOut("0.1", "it stops by name", by="warehouse"),)
    assert destination.columns[1].verdict is Parity.NOT_SENT
    assert "| account | rate | 0.1 | warehouse | it stops by name |" in markdown(certificate)
    assert "### Values that the source refuses" not in markdown(certificate)


def test_a_destination_that_cannot_be_certified_is_not_sent_with_its_reason_and_keeps_no_other_from_it() -> None:
    topics = replace(PLAN.destinations[0], name="topics", kind="kafka")
    certificate = certified(World(), replace(PLAN, destinations=(*PLAN.destinations, topics)))
    assert [(one.destination, one.verdict) for one in certificate.destinations] == [
        ("warehouse", Parity.SAME),
        ("topics", Parity.NOT_SENT),
    ]
    assert certificate.verdict is Parity.NOT_SENT
    assert "Nothing was compared: kind 'kafka' cannot be certified. leave that out." in markdown(certificate)


def test_a_sync_of_which_no_destination_can_be_certified_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be certified"):
        certified(World(), replace(PLAN, destinations=(replace(PLAN.destinations[0], name="topics"),)))


def test_a_default_is_reported_with_whether_null_was_sent_against_it() -> None:
    class Nulls(World):
        def edge_values(self, table: Table) -> Mapping[str, Sequence[str]]:
            return {"id": ["1"], "rate": ["0.1", "NULL"]}

    kept = {"id": Default("5"), "rate": Default("0.5")}
    (destination,) = certified(Nulls(kept=kept)).destinations
    assert [one.null_against_default for one in destination.columns] == [
        "the column takes no NULL",
        "NULL was sent against it",
    ]
    (destination,) = certified(Nulls(kept={"rate": Default("f()", "refused")})).destinations
    assert [one.default for one in destination.columns] == [None, Default("f()", "refused")]
    assert destination.columns[1].null_against_default == "not tried: refused"


def test_a_default_in_place_of_null_is_different() -> None:
    world = World(kept={"rate": Default("0.5")}, stored_unlike=[StoredUnlike("rate", 2, None, "0.5")])
    assert unlike(certified(world)) == [("rate", "snapshot", None, "0.5")]


def test_a_path_that_ends_leaves_nothing_compared_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: ProbeRun) -> None:
        raise TerminalError("connector fails", hint="look at its log")

    monkeypatch.setattr(ProbeRun, "send", fail)
    certificate = certified(World())
    assert certificate.verdict is Parity.NOT_SENT
    assert certificate.destinations[0].trouble == "connector fails. look at its log."


def test_an_error_of_the_preparation_is_raised_and_everything_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: ProbeRun) -> None:
        raise Refused("a table is in the way")

    monkeypatch.setattr(ProbeRun, "make", refuse)
    world = World()
    with pytest.raises(Refused):
        certified(world)
    assert world.done[-4:] == ["delete connector", "remove schemas", "delete topics", "drop tables"]


@pytest.mark.parametrize("stuck", ["delete connector", "remove schemas"])
def test_what_cannot_be_removed_keeps_nothing_else_from_being_removed(stuck: str) -> None:
    world = World(stuck=stuck)
    with pytest.raises(TransientError):
        certified(world)
    assert world.done[-4:] == ["delete connector", "remove schemas", "delete topics", "drop tables"]


def test_a_stream_that_met_what_its_log_did_not_promise_certifies_nothing() -> None:
    certificate = certified(World(met=[Finding("price", "update of no row", '{"id":1}', 7)]))
    assert certificate.verdict is Parity.NOT_SENT
    assert "update of no row in price" in certificate.destinations[0].trouble


def test_destinations_of_one_sync_have_schemas_of_their_own() -> None:
    two = replace(PLAN, destinations=(*PLAN.destinations, replace(PLAN.destinations[0], name="other")))
    assert len({one.namespace for one in own_plan(two, "owner").destinations}) == 2


def test_nothing_of_a_certificate_has_a_name_of_the_sync_or_of_a_declared_one() -> None:
    assert OWN.sync == "settlement~certify"
    assert {OWN.source.log_topic, OWN.source.connector, OWN.source.slot, OWN.source.marker_table}.isdisjoint(
        {SOURCE.log_topic, SOURCE.connector, SOURCE.slot, SOURCE.marker_table}
    )
    assert OWN.destinations[0].namespace == "seamline_certify_settlement"
    assert (OWN.source.reader, OWN.source.marker, OWN.source.capture) == ("bank_owner", "bank_owner", "bank_capture")


def test_the_longest_names_still_fit_their_servers() -> None:
    long = SyncPlan("s" * 40, SOURCE, PLAN.destinations, PLAN.tables)
    own = own_plan(long, "owner")
    names = [own.source.slot, own.source.publication, own.source.marker_table, own.destinations[0].stage_namespace]
    assert max(map(len, names)) <= 63
    assert all(len(use_case._probe_name(table).encode()) <= 63 for table in ("t" * 63, "票" * 21))
    assert use_case._probe_name("t" * 63) != use_case._probe_name("t" * 62)
