"""A task's process reads the files of its own sync, and gets the plan that a look at all syncs gives."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import Declarations, load_alone, load_each, load_suite
from tests.unit.declared import DESTINATION, SUITE, SYNC, write_declarations
from tests.unit.mistakes import MISTAKES, TEXTS

OTHER = {
    "sources/other.yaml": "source: other\nkind: postgres\nconnection: other\ndatabase: other\nschema: public\n",
    "destinations/other.yaml": DESTINATION.replace("warehouse", "other").replace("settlement", "other"),
    "expectations/other.yaml": SUITE.replace("settlement", "other"),
    "syncs/other.yaml": SYNC.replace("core_bank", "other").replace("warehouse", "other").replace("settlement", "other"),
    "calendars/other.yaml": "calendar: other\nfrom: 2026-01-01\nuntil: 2026-12-31\n",
}
CALENDAR = {
    "calendars/bank.yaml": "calendar: bank\nfrom: 2026-01-01\nuntil: 2026-12-31\n",
    "syncs/settlement.yaml": SYNC.replace("nightly:\n", "nightly:\n  calendars: [bank]\n"),
}
TRANSFORM = {
    "transforms/account.sql": "SELECT * FROM account",
    "syncs/settlement.yaml": SYNC.replace(
        "- account\n", "- {name: account, transform: include/transforms/account.sql}\n"
    ),
}
# A destination that speaks of a table which only the other sync brings there.
SHARED = {
    "destinations/warehouse.yaml": """\
destination: warehouse
kind: iceberg
connection: warehouse
catalog: lake
warehouse: /lake
namespace: settlement
write: spark
tables: [{name: entry, partitioned_by: [id]}]
""",
    "syncs/third.yaml": "sync: third\nsource: core_bank\ndestinations: [warehouse]\ntables: [entry]\n",
}


@pytest.mark.parametrize("more", [{}, OTHER, {**OTHER, **CALENDAR}, TRANSFORM], ids=["one", "two", "dated", "made"])
def test_a_sync_read_alone_has_the_plan_that_it_has_beside_all_others(tmp_path: Path, more: dict[str, str]) -> None:
    folder = write_declarations(tmp_path, more)
    for file, together in load_each(folder).items():
        assert not isinstance(together, DeclarationsInvalid), str(together)
        ((place, alone),) = load_each(folder, alone=file.stem).items()
        assert place == file
        assert alone == together
        assert plan_to_json(compile_plan(alone, file.stem)) == plan_to_json(compile_plan(together, file.stem))


def test_the_demo_s_sync_read_alone_has_the_same_plan(checkout: Path) -> None:
    file = checkout / "include" / "syncs" / "settlement.yaml"
    plans = [
        compile_plan(one[file], "settlement") for one in (load_each(checkout / "include"), {file: load_alone(file)})
    ]
    assert plan_to_json(plans[0]) == plan_to_json(plans[1])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_sync_that_is_refused_beside_others_is_refused_alone(tmp_path: Path, mistake: str) -> None:
    file, before, after, *_ = MISTAKES[mistake]
    folder = write_declarations(tmp_path, {**OTHER, file: TEXTS[file].replace(before, after, 1)})
    together = load_each(folder)[folder / "syncs/settlement.yaml"]
    alone = load_each(folder, alone="settlement")[folder / "syncs/settlement.yaml"]
    assert isinstance(together, DeclarationsInvalid)
    assert isinstance(alone, DeclarationsInvalid)
    # What else there is to choose from is not known to who reads one file.
    assert [(one.file, one.line, one.cause) for one in alone.faults] == [
        (one.file, one.line, one.cause) for one in together.faults
    ]


def test_no_file_of_another_sync_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, opened, original = write_declarations(tmp_path, {**OTHER, **CALENDAR}), list[str](), Path.open

    def noted(path: Path, *arguments: object, **how: object) -> object:
        opened.append(str(path.relative_to(folder)))
        return original(path, *arguments, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", noted)
    load_alone(folder / "syncs" / "settlement.yaml")
    assert sorted(opened) == [
        "calendars/bank.yaml",
        "destinations/warehouse.yaml",
        "expectations/settlement.yaml",
        "sources/core_bank.yaml",
        "syncs/settlement.yaml",
    ]
    opened.clear()
    load_each(folder)
    assert "syncs/other.yaml" in opened, "what is noted is what is opened"


def test_what_another_sync_has_wrong_beside_this_one_is_not_seen_alone(tmp_path: Path) -> None:
    """It is seen by the DAG processor, which then has no such DAG, and by preflight."""
    writes_it_too = {"syncs/other.yaml": SYNC.replace("sync: settlement", "sync: other")}
    folder = write_declarations(tmp_path, writes_it_too)
    assert all(isinstance(one, DeclarationsInvalid) for one in load_each(folder).values())
    assert list(load_alone(folder / "syncs" / "settlement.yaml").syncs) == ["settlement"]


def test_a_destination_may_speak_of_a_table_that_another_sync_brings(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, SHARED)
    file = folder / "syncs" / "settlement.yaml"
    together = load_each(folder)[file]
    assert not isinstance(together, DeclarationsInvalid), str(together)
    assert load_alone(file) == together


def test_a_sync_without_a_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean `settlement`"):
        load_each(write_declarations(tmp_path), alone="setlement")


def test_a_suite_is_found_by_its_name_whatever_else_is_declared(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {**OTHER, "expectations/broken.yaml": "checks: 7\n"})
    suite, broken = load_suite(folder, "settlement"), load_suite(folder, "broken")
    assert suite is not None
    assert suite.spec is not None
    assert suite.spec.expectations == "settlement"
    assert broken is not None
    assert broken.spec is None
    assert load_suite(folder, "nothing") is None


def test_of_200_syncs_each_file_is_read_once_however_many_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that each sync reads again would be read 200 times at each look of the DAG processor."""
    texts: dict[str, str] = {}
    for number in range(200):
        own = SYNC.replace("sync: settlement", f"sync: s{number}").replace("[warehouse]", f"[w{number}]")
        place = DESTINATION.replace("warehouse", f"w{number}", 1).replace("settlement", f"s{number}")
        texts |= {f"syncs/s{number}.yaml": own, f"destinations/w{number}.yaml": place}
    folder = write_declarations(tmp_path, texts)
    read = Counter[Path]()
    for name in ("read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, _counted(getattr(Path, name), read))
    plans = [compile_plan(one, file.stem) for file, one in load_each(folder).items() if isinstance(one, Declarations)]
    assert len(plans) == 201
    files = set(folder.rglob("*.yaml"))
    assert {file: times for file, times in read.items() if file in files and times != 1} == {}
    assert files <= read.keys(), "what was counted is how they are read"


def _counted(of: Callable[..., Any], read: Counter[Path]) -> Callable[..., Any]:
    def counted(self: Path, *args: Any, **kwargs: Any) -> Any:
        read[self] += 1
        return of(self, *args, **kwargs)

    return counted
