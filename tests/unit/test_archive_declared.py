"""Where the log of a source is archived: declared, planned, explained, refused."""

from pathlib import Path

import pytest

from seamline import registry
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import ArchivePlan
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import KNOWN, SOURCE, write_declarations


def declared(folder: Path, archive: str) -> Path:
    return write_declarations(folder, {"sources/core_bank.yaml": f"{SOURCE}log:\n  archive: {archive}\n"})


def test_it_is_planned_explained_and_comes_back_from_the_text_of_the_plan(tmp_path: Path) -> None:
    folder = declared(tmp_path, "{location: s3://logs/archive/, connection: objects, keep_days: 3650}")
    plan = compile_plan(load_declarations(folder), "settlement")
    assert plan.source.archive == ArchivePlan("s3://logs/archive", "objects", 3650)
    assert plan_from_json(plan_to_json(plan)) == plan
    said = " ".join(explain(plan).split())
    assert "go to the archive in s3://logs/archive, where they are read back; kept there for 3650 days." in said


def test_a_source_without_one_keeps_its_hash_and_the_text_of_its_plan(tmp_path: Path) -> None:
    plain = load_declarations(write_declarations(tmp_path))
    with_one = load_declarations(declared(tmp_path / "with", "{location: /srv/archive}"))
    plan = compile_plan(plain, "settlement")
    assert '"archive"' not in plan_to_json(plan)
    assert "archive" not in explain(plan)
    assert config_hash(plain, "settlement") != config_hash(with_one, "settlement")
    assert compile_plan(with_one, "settlement").source.archive == ArchivePlan("/srv/archive")


def test_a_place_that_is_not_there_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    folder = declared(tmp_path / "declared", f"{{location: {place}}}")
    plan = compile_plan(load_declarations(folder), "settlement")
    (problem,) = registry.archive_problems(plan)
    assert f"the archive of source core_bank: {place} is no folder here" in problem.what
    place.mkdir()
    assert registry.archive_problems(plan) == ()
    assert not [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("archive", "cause"),
    [
        ("{location: archive}", "an absolute path"),
        ("{location: 'sftp:///archive'}", "a folder or a place on S3"),
        ("{location: /srv/archive, connection: objects}", "leave `connection` out"),
        ("{location: 's3:///archive', connection: objects}", "s3://bucket/folder"),
        ("{location: /srv/archive, keep_days: 0}", "must be more than 0"),
        ("{location: 's3://logs', connection: warehouse}", "an archive on S3 needs type aws"),
        ("{location: 's3://logs', connection: nowhere}", "there is no connection `nowhere`"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, archive: str, cause: str) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(declared(tmp_path, archive), connections={**KNOWN, "objects": "aws"})
    (fault,) = caught.value.faults
    assert cause in fault.cause or cause in fault.cure
    assert fault.path.startswith("log.archive")
