"""The kinds that are installed: found by name, whole, and refused in words where they are not."""

from importlib.metadata import EntryPoint

import pytest

from seamline import registry
from seamline.domain import installed
from seamline.domain.errors import ConfigError
from seamline.kinds.found import power, sink_kind, source_kind
from seamline.kinds.sink import HoldsCuts, ReadsBack
from seamline.kinds.source import Certifies, HidesSchemaChanges
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.spec.kinds import destination_models, source_models


def test_every_kind_bears_the_name_that_it_is_found_by() -> None:
    sources, sinks = installed.names(installed.SOURCES), installed.names(installed.SINKS)
    assert {"mariadb", "postgres"} <= set(sources)
    assert "postgres" in sinks
    assert [source_kind(name).name for name in sources] == list(sources)
    assert [sink_kind(name).name for name in sinks] == list(sinks)


def test_every_kind_brings_the_model_of_its_declaration() -> None:
    for models in (source_models(), destination_models()):
        for name, model in models.items():
            assert model.model_json_schema()["properties"]["kind"]["const"] == name


def test_a_power_is_had_or_refused_in_words() -> None:
    assert power(sink_kind("postgres"), HoldsCuts, to="hold cuts") is sink_kind("postgres")
    assert power(sink_kind("postgres"), ReadsBack, to="be read back") is sink_kind("postgres")
    assert power(source_kind("mariadb"), Certifies, to="be certified") is source_kind("mariadb")
    with pytest.raises(ConfigError, match="kind 'mariadb' cannot hide its DDL"):
        power(source_kind("mariadb"), HidesSchemaChanges, to="hide its DDL")


def test_an_unknown_kind_names_the_known_ones() -> None:
    plan = SyncPlan(
        sync="settlement",
        source=SourcePlan("legacy", "db2", "bank", "a", "b", "c", "log", "connector"),
        destinations=(DestinationPlan("warehouse", "paper", "warehouse", "settlement"),),
        tables=(),
    )
    with pytest.raises(ConfigError, match=r"source of kind 'db2'.*\n.*mariadb"):
        registry.source(plan)
    with pytest.raises(ConfigError, match=r"destination of kind 'paper'.*\n.*postgres"):
        registry.sink(plan, "warehouse")


def found_are(entries: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installed, "entry_points", lambda group: [EntryPoint(name, value, group) for name, value in entries]
    )
    installed._found.cache_clear()
    monkeypatch.setattr(installed, "_found", installed._found.__wrapped__)


def test_a_kind_whose_package_is_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found_are([("ledgerdb", "seamline_ledgerdb.kind:KIND")], monkeypatch)
    with pytest.raises(ConfigError, match=r"kind 'ledgerdb' cannot be loaded: No module named.*\n.*mend or remove"):
        source_kind("ledgerdb")


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found_are([("ledgerdb", "one.kind:KIND"), ("ledgerdb", "other.kind:KIND")], monkeypatch)
    with pytest.raises(ConfigError, match=r"two packages bring a source kind 'ledgerdb': one.kind:KIND and other.kind"):
        source_kind("ledgerdb")


def test_nothing_is_armed_to_fail_unless_the_environment_says_so() -> None:
    assert registry.failpoints() is None
