"""A kind that somebody else ships: installed as a package beside Seamline, and known like ours."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from seamline import settings
from tests.unit.declared import SYNC, write_declarations

SPEC = '''
from typing import Literal
from pydantic import Field
from seamline.spec.destination import Destination

class Paper(Destination):
    """A ledger on paper."""
    kind: Literal["paper"] = Field(description="What kind of system the destination is.")
    tray: str = Field(description="The tray of the printer.")

    @property
    def namespace(self) -> str:
        return self.tray
'''
KIND = """
from seamline.kinds.sink import Atomic, SinkPowers

class Paper:
    name = "paper"
    powers = SinkPowers(Atomic.TABLE, deletes=False)

    def spec(self):
        from seamline_paper.spec import Paper
        return Paper

    def open_live(self, plan, destination, count):
        raise NotImplementedError

KIND = Paper()
"""
DESTINATION = "destination: warehouse\nkind: paper\nconnection: warehouse\ntray: upper\n"
WHEEL = "seamline_paper-1.0.dist-info"


@pytest.fixture(scope="module")
def installed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages into which the wheel of the kind was unpacked, which is how a wheel is installed."""
    folder = tmp_path_factory.mktemp("packages")
    wheel = folder.parent / "seamline_paper-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("seamline_paper/__init__.py", "")
        packed.writestr("seamline_paper/spec.py", SPEC)
        packed.writestr("seamline_paper/kind.py", KIND)
        packed.writestr(f"{WHEEL}/METADATA", "Metadata-Version: 2.1\nName: seamline-paper\nVersion: 1.0\n")
        packed.writestr(f"{WHEEL}/entry_points.txt", "[seamline.sinks]\npaper = seamline_paper.kind:KIND\n")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def seamline(*command: str, packages: Path, declarations: Path) -> subprocess.CompletedProcess[str]:
    env = {**settings.process_environment(), "PYTHONPATH": str(packages), "SEAMLINE_DECLARATIONS": str(declarations)}
    return subprocess.run(
        [sys.executable, "-m", "seamline.cli.main", *command], env=env, capture_output=True, text=True, check=False
    )


def declared(folder: Path, *, sync: str) -> Path:
    write_declarations(folder, {"destinations/warehouse.yaml": DESTINATION, "syncs/settlement.yaml": sync})
    return folder


# Cuts, and what is made of them, need a power that this kind has not.
LIVE_ONLY = SYNC.replace("nightly:\n  timezone: Asia/Shanghai\n", "").partition("derived:")[0]


def test_its_declarations_are_validated_by_its_own_model(installed_in: Path, tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    ended = seamline("validate", packages=installed_in, declarations=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder / "destinations/warehouse.yaml").write_text(DESTINATION.replace("tray", "trey"), encoding="utf-8")
    ended = seamline("validate", packages=installed_in, declarations=folder)
    assert ended.returncode == 2
    assert "tray" in ended.stdout + ended.stderr


def test_a_stage_that_needs_a_power_it_lacks_is_refused_with_the_kinds_that_have_it(
    installed_in: Path, tmp_path: Path
) -> None:
    folder = declared(tmp_path, sync=SYNC)
    ended = seamline("validate", packages=installed_in, declarations=folder)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 2
    assert "destination `warehouse` (paper) cannot hold cuts" in said
    assert "Use a destination of kind mariadb or postgres, or leave `nightly` out" in said


def test_explain_says_what_it_can_and_cannot(installed_in: Path, tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    said = seamline("explain", packages=installed_in, declarations=folder).stdout
    assert "live tables in upper" in said
    powers = said[said.index("powers of destination warehouse, kind paper") :]
    assert "one commit moves one table" in powers
    assert "deletes are refused" in powers
    assert "no cuts by business date" in powers


def test_its_declaration_is_in_the_schema(installed_in: Path, tmp_path: Path) -> None:
    program = "import json; from seamline.spec.schema import schemas; print(json.dumps(schemas()['destination']))"
    env = {**settings.process_environment(), "PYTHONPATH": str(installed_in)}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    assert set(json.loads(said)["discriminator"]["mapping"]) == {"paper", "mariadb", "postgres"}


def test_without_the_package_the_kind_is_unknown(tmp_path: Path) -> None:
    folder = declared(tmp_path, sync=LIVE_ONLY)
    ended = seamline("validate", packages=tmp_path / "nothing", declarations=folder)
    assert ended.returncode == 2
    assert "is not a kind of destination" in ended.stdout + ended.stderr
