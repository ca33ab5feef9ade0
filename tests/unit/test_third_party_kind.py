"""A kind that somebody else ships: installed as a package beside Seamline, and known like ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seamline import settings
from tests.installed import EXAMPLE, install
from tests.unit.declared import SYNC, write_declarations

DESTINATION = "destination: warehouse\nkind: memory\nconnection: warehouse\n"
SOURCE = "source: core_bank\nkind: memory\nconnection: core_bank\ndatabase: bank\n"


@pytest.fixture(scope="module")
def installed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which the example lies installed."""
    folder = tmp_path_factory.mktemp("packages")
    install(EXAMPLE, folder)
    return folder


def seamline(*command: str, packages: Path, declarations: Path) -> subprocess.CompletedProcess[str]:
    env = {**settings.process_environment(), "PYTHONPATH": str(packages), "SEAMLINE_DECLARATIONS": str(declarations)}
    return subprocess.run(
        [sys.executable, "-m", "seamline.cli.main", *command], env=env, capture_output=True, text=True, check=False
    )


def declared(folder: Path, *, sync: str) -> Path:
    files = {
        "destinations/warehouse.yaml": DESTINATION,
        "sources/core_bank.yaml": SOURCE,
        "syncs/settlement.yaml": sync,
    }
    write_declarations(folder, files)
    return folder


# Cuts, and what is made of them, need a power that this kind has not.
LIVE_ONLY = SYNC.replace("nightly:\n  timezone: Asia/Shanghai\n", "").partition("derived:")[0]


def test_its_declarations_are_validated_by_its_own_models(installed_in: Path, tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    ended = seamline("validate", packages=installed_in, declarations=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name, right in (("destinations/warehouse.yaml", DESTINATION), ("sources/core_bank.yaml", SOURCE)):
        (folder / name).write_text(right + "tray: upper\n", encoding="utf-8")
        ended = seamline("validate", packages=installed_in, declarations=folder)
        assert ended.returncode == 2
        assert f"{name}:" in ended.stdout + ended.stderr
        assert "tray" in ended.stdout + ended.stderr
        (folder / name).write_text(right, encoding="utf-8")


def test_a_stage_that_needs_a_power_it_lacks_is_refused_with_the_kinds_that_have_it(
    installed_in: Path, tmp_path: Path
) -> None:
    folder = declared(tmp_path, sync=SYNC)
    ended = seamline("validate", packages=installed_in, declarations=folder)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2
    assert "destination `warehouse` (memory) cannot hold cuts" in said
    assert (
        "Use a destination of kind delta or hudi or iceberg or iceberg_single or mariadb or mysql or"
        " postgres, or leave `nightly` out" in said
    )


def test_explain_says_what_it_can_and_cannot(installed_in: Path, tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    said = seamline("explain", packages=installed_in, declarations=folder).stdout
    assert "live tables in memory" in said
    powers = said[said.index("powers of destination warehouse, kind memory") :]
    assert "one commit moves all tables of the sync and the ledger" in powers
    assert "no cuts by business date" in powers


def test_grants_print_what_its_owner_runs(installed_in: Path, tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    for name in ("warehouse", "core_bank"):
        ended = seamline("grants", name, packages=installed_in, declarations=folder)
        assert ended.returncode == 0, ended.stderr
        assert "lies in memory: there is nothing to grant" in ended.stdout


def test_its_declarations_are_in_the_schema(installed_in: Path) -> None:
    program = "import json; from seamline.spec.schema import schemas; print(json.dumps(schemas()))"
    env = {**settings.process_environment(), "PYTHONPATH": str(installed_in)}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    for of in ("source", "destination"):
        assert {"memory", "postgres"} <= set(json.loads(said)[of]["discriminator"]["mapping"])


def test_the_sink_suite_passes_over_it_as_it_is_installed(installed_in: Path, checkout: Path) -> None:
    env = {**settings.process_environment(), "PYTHONPATH": str(installed_in)}
    command = [sys.executable, "-m", "tests.contract.installed_memory"]
    ended = subprocess.run(command, env=env, cwd=checkout, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    *passed, found_in = ended.stdout.splitlines()
    assert len(passed) == len(set(passed)) > 60
    assert found_in.startswith(f"from {installed_in}")


def test_without_the_package_the_kind_is_unknown(tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    ended = seamline("validate", packages=tmp_path / "nothing", declarations=folder)
    assert ended.returncode == 2
    assert "is not a kind of source" in ended.stdout + ended.stderr
