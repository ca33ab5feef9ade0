"""Redis as a kind of destination: its declaration, its keys, and what it refuses by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError
from seamline.kinds.found import sink_kind
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import HoldsCuts, ReadsBack, described
from seamline.plan.compile import compile_plan
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.plan.stages import all_stages
from seamline.ports import Survey
from seamline.sinks.redis.grants import grant_script
from seamline.sinks.redis.keys import Keyspace, key_parts
from seamline.sinks.redis.options import rows_max_of
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.log_topic import ACCOUNT, AUDIT
from tests.unit.declared import SYNC, write_declarations

CACHE = "destination: cache\nkind: redis\nconnection: cache\nprefix: settlement\n"
LIVE = SYNC.partition("  - {name: ledger_entry")[0].replace("[warehouse]", "[cache]")


def declared(folder: Path, sync: str = LIVE, cache: str = CACHE) -> Path:
    return write_declarations(folder, {"destinations/cache.yaml": cache, "syncs/settlement.yaml": sync})


@pytest.fixture
def plan(tmp_path: Path) -> SyncPlan:
    return compile_plan(load_declarations(declared(tmp_path)), "settlement")


def test_a_declaration_becomes_a_plan_without_nights(plan: SyncPlan) -> None:
    cache = plan.destination("cache")
    assert (cache.kind, cache.connection, cache.namespace, rows_max_of(cache)) == (
        "redis",
        "cache",
        "settlement",
        250_000,
    )
    assert set(all_stages(plan)) >= {"onboard", "reconcile"}
    assert "nightly" not in all_stages(plan)
    assert "streams as cache; live tables in settlement, no cuts" in " ".join(explain(plan).split())


def test_an_incremental_snapshot_has_the_hash_tag_of_its_stream(plan: SyncPlan) -> None:
    passed = plan.incremental_plan([plan.tables[0].name], "7").destinations[0]
    keys = Keyspace.of(passed)
    assert keys == Keyspace.of(plan.destinations[0])
    assert keys.live(passed.namespace, "account").rows == "{settlement}_incremental_7:account:"
    assert keys.live("settlement", "account").rows == "{settlement}:account:"


def test_parts_of_a_key_are_kept_apart() -> None:
    found = {key_parts(parts) for parts in (["a", "b"], ["a:b"], ["a%3Ab"], ["a", ":b"], ["a:", "b"], ["", "a:b"])}
    assert len(found) == 6
    assert key_parts(["a:b", "100%"]) == "a%3Ab:100%25"


def test_nights_are_refused_with_the_kinds_that_have_them(tmp_path: Path) -> None:
    folder = declared(tmp_path, SYNC.replace("[warehouse]", "[cache]"))
    with pytest.raises(ConfigError, match="`cache` \\(redis\\) cannot hold cuts"):
        load_declarations(folder)


def test_a_table_without_a_key_is_refused_by_name(tmp_path: Path) -> None:
    declarations = load_declarations(declared(tmp_path))
    compile_plan(declarations, "settlement", Survey((ACCOUNT,)))
    said = "table account: destination `cache` .redis. keeps no table without a primary key"
    with pytest.raises(DeclarationsInvalid, match=said):
        compile_plan(declarations, "settlement", Survey((replace(AUDIT, name="account"),)))


@pytest.mark.parametrize("prefix", ["a:b", "{a}", "a*", "", "a@b"])
def test_a_prefix_that_would_mean_something_in_a_key_or_a_pattern_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(ConfigError, match="a prefix has letters"):
        load_declarations(declared(tmp_path, cache=CACHE.replace("settlement", f'"{prefix}"')))


def test_it_says_what_it_can_do_and_at_which_level() -> None:
    kind = sink_kind("redis")
    assert isinstance(kind, ReadsBack)
    assert not isinstance(kind, HoldsCuts)
    said = described(kind)
    assert said[0] == "one commit moves all tables of the sync and the ledger"
    assert "a table without a key is refused" in said


def test_a_connection_says_its_tls_by_the_names_of_the_others() -> None:
    found = parsed("redis://writer:secret@cache.example:6379?sslmode=require&db=3")
    assert (found.kind, dict(found.extra)) == ("redis", {"sslmode": "require", "db": "3"})
    for wrong, said in (("sslmode=verify-full", "by which CA"), ("ssl=true", "sslmode"), ("db=one", "write a number")):
        with pytest.raises(ConfigError, match=said):
            parsed(f"redis://cache.example:6379?{wrong}")


def test_the_page_of_grants_shows_what_the_script_prints(checkout: Path) -> None:
    page = (checkout / "docs" / "reference" / "grants.md").read_text(encoding="utf-8")
    assert f"```\n{grant_script('settlement', logins=DestinationLogins())}```" in page
