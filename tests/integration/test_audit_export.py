"""The evidence of a date verifies itself with Python alone, and its verifier finds what was changed in it."""

import ast
import hashlib
import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from seamline import registry
from seamline.adapters.connections import resolve
from seamline.cli.main import main
from seamline.domain.decision import DECISION, Decision, DecisionState
from seamline.domain.errors import Refused
from seamline.domain.runs import SIGNED_BY, Scope
from seamline.domain.verdict import Verdict
from seamline.platform import migrate, verify_evidence
from seamline.platform.audit import PlatformAudit
from seamline.platform.audit_anchor import anchor_files, write_anchor
from seamline.platform.audit_export import export
from seamline.platform.database import CONNECTION_ID, Database
from seamline.platform.store import PlatformStore
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server, database_of_its_own
from tests.integration.test_audit import CUT, DAY
from tests.integration.test_platform import reconciliation, start_run


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with database_of_its_own("audit_export_test") as made:
        migrate.upgrade(made.open)
        yield made


def anchored(server: Server, folder: Path) -> Path:
    with closing(PlatformAudit(Database(server.open))) as log:
        head = log.head()
    assert head is not None
    return write_anchor(folder, head)


@pytest.fixture(scope="module")
def anchors(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night with a question, an act of another sync and of another date in between, and an anchor behind it all."""
    folder = tmp_path_factory.mktemp("anchors")
    with closing(PlatformStore(Database(server.open))) as store:
        start_run(store)
        store.save_reconciliation(reconciliation())
        store.save_reconciliation(replace(reconciliation(), sync="other", run_id="o1"))
        asked = Decision.asked(("ann",), destinations=("warehouse",))
        store.put_result("r1", DECISION, asked.to_json())
        store.save_reconciliation(replace(reconciliation(), run_id="r2", business_date=date(2026, 3, 2)))
        store.put_result("r1", DECISION, asked.answered(DecisionState.APPROVED, who="ann", reason="known").to_json())
        store.save_cut(CUT)
        evidence = {**reconciliation().evidence, SIGNED_BY: "ann: known"}
        store.save_reconciliation(replace(reconciliation(), evidence=evidence))
        anchored(server, folder)
        store.save_reconciliation(replace(reconciliation(Verdict.MATCH), run_id="r3", scope=Scope.LIVE, sync="other"))
    return folder


@pytest.fixture(scope="module")
def exported(server: Server, anchors: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence") / "settlement"
    with server.open() as session:
        made = export(session, sync="settlement", day=DAY, folder=folder, anchors=anchor_files(anchors))
    assert (made.entries, made.verdicts, made.files, made.head, made.is_anchored) == (5, 1, 0, 8, True)
    return folder


@pytest.fixture
def evidence(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "evidence"))


def verified(folder: Path, *anchors: Path) -> tuple[int, list[str]]:
    """By any Python, isolated from what is installed, in a place of its own."""
    done = subprocess.run(
        ["python3", "-I", str(folder / "verify.py"), *map(str, anchors)],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]


def test_evidence_verifies_itself_and_shows_of_other_dates_and_syncs_nothing_but_hashes(
    evidence: Path, anchors: Path
) -> None:
    (anchor,) = anchors.iterdir()
    code, lines = verified(evidence, anchor)
    assert (code, lines[0], lines[2:]) == (
        0,
        "settlement, business date 2026-03-01: 5 entries, 1 verdict, 0 files",
        ["1 line of the given anchors is about this chain", "nothing is wrong"],
    )
    links = [json.loads(line) for line in (evidence / "chain.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [link["number"] for link in links if "content" not in link] == [3, 5]
    assert "other" not in (evidence / "chain.jsonl").read_text(encoding="utf-8")
    assert sorted(path.name for path in evidence.iterdir()) == [
        "chain.jsonl", "head.json", "verdict-8.json", "verify.py",
    ]  # fmt: skip


def test_the_verifier_needs_no_newer_python_than_it_says() -> None:
    text = Path(verify_evidence.__file__).read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))
    imported = {name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for name in node.names}
    assert {name.name for name in imported} == {"hashlib", "json", "sys"}


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return work


def without_line(number: int) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        lines = (folder / "chain.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / "chain.jsonl").write_text("".join(lines[: number - 1] + lines[number:]), encoding="utf-8")

    return work


def swapped_lines(folder: Path) -> None:
    lines = (folder / "chain.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "chain.jsonl").write_text("".join([lines[1], lines[0], *lines[2:]]), encoding="utf-8")


PLANTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a value of a break": (
        edit("verdict-8.json", '"zulu":"2"', '"zulu":"1"'),
        "FAULT  verdict-8.json: the verdict of r1 warehouse cut is not what entry 8 says: table account",
    ),
    "a total": (
        edit("verdict-8.json", '"12.3300"', '"12.3400"'),
        "FAULT  verdict-8.json: the verdict of r1 warehouse cut is not what entry 8 says: table account",
    ),
    "the headline": (
        edit("verdict-8.json", '"verdict":"BREAK"}', '"verdict":"MATCH"}'),
        "FAULT  verdict-8.json: the verdict of r1 warehouse cut is not what entry 8 says: table account",
    ),
    "who signed": (
        edit("verdict-8.json", "ann: known", "bob: known"),
        "FAULT  verdict-8.json: the verdict of r1 warehouse cut is not what entry 8 says: its header or evidence",
    ),
    "a verdict that is gone": (
        lambda folder: (folder / "verdict-8.json").unlink(),
        "FAULT  verdict-8.json: the verdict of r1 warehouse cut is missing",
    ),
    "a verdict that is too much": (
        lambda folder: (folder / "verdict-9.json").write_text("{}", encoding="utf-8"),
        "FAULT  verdict-9.json: no entry names it",
    ),
    "the name in an entry": (
        edit("chain.jsonl", '"who":"ann"', '"who":"bob"'),
        "FAULT  entry 6: it was changed, or another one stands before it",
    ),
    "an entry that is gone": (without_line(2), "FAULT  entry 3 is missing: entry 4 follows 2"),
    "two entries that changed places": (swapped_lines, "FAULT  entry 2 is missing: entry 3 follows 1"),
    "the end": (without_line(7), "FAULT  the chain ends with entry 7 and not with the head, 8"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_the_verifier_finds_what_was_changed(evidence: Path, what: str) -> None:
    plant, fault = PLANTED[what]
    plant(evidence)
    code, lines = verified(evidence)
    assert code == 1
    assert fault in lines


def test_a_chain_that_was_made_again_whole_differs_from_an_anchor_that_was_kept_elsewhere(
    evidence: Path, anchors: Path, tmp_path: Path
) -> None:
    (anchor,) = anchors.iterdir()
    kept = tmp_path / "head-elsewhere.log"
    kept.write_text(f"{8} {'0' * 64} 2026-03-02T00:00:00.000000Z\nscribble\n", encoding="utf-8")
    code, lines = verified(evidence, anchor, kept)
    assert code == 1
    assert [line for line in lines if line.startswith("FAULT")] == [
        "FAULT  head-elsewhere.log line 1: entry 8 has another hash than here",
        "FAULT  head-elsewhere.log line 2: it is no anchor",
    ]


def test_evidence_that_cannot_be_read_is_an_error_and_not_right(evidence: Path) -> None:
    (evidence / "head.json").unlink()
    code, lines = verified(evidence)
    assert code == 2
    assert lines[0].startswith("the evidence cannot be read: FileNotFoundError")


def test_the_zip_of_the_page_is_the_same_folder_and_verifies_itself(
    server: Server, anchors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMLINE_AUDIT_ANCHORS", str(anchors))
    with known_by_id(replace(resolve("postgres_root"), database=server.name), CONNECTION_ID, "postgres"):
        content = registry.evidence("settlement", DAY)
        with pytest.raises(Refused, match="no act is about 2020-01-01"):
            registry.evidence("settlement", date(2020, 1, 1))
    with content, zipfile.ZipFile(content) as archive:
        archive.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    code, lines = verified(folder)
    assert (folder.name, code, lines[-1]) == (f"evidence-settlement-{DAY}", 0, "nothing is wrong")


def test_the_commands_verify_and_export_what_is_stored_and_name_what_is_not_as_it_was(
    server: Server,
    anchors: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEAMLINE_AUDIT_ANCHORS", str(anchors))
    with known_by_id(replace(resolve("postgres_root"), database=server.name), CONNECTION_ID, "postgres"):
        assert main(["audit", "verify"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "9 entries, 4 verdicts, 1 decision, 1 cut, 0 signatures, 0 files",
            "anchored up to entry 8; 1 entry stands behind no anchor",
            "nothing is wrong",
        ]
        with server.open() as session:
            session.execute("update break set key = '[\"9\"]' where key = '[\"8\"]'")
        assert main(["audit", "verify", "--sync", "settlement"]) == 1
        said = capsys.readouterr().out.splitlines()
        assert said[:2] == [
            f"FAULT  settlement → warehouse {place}: table account was changed after entry {entry}"
            for place, entry in (("2026-03-02, run r2", "5 (compared)"), ("2026-03-01, run r1", "8 (signature kept)"))
        ]
        assert said[-1] == "2 FAULTS"

        folder = tmp_path / "evidence"
        export_it = ["audit", "export", "settlement", "--date", "2026-03-01", "--output", str(folder)]
        assert main(export_it) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"verify it anywhere: python3 {folder / 'verify.py'}"
        assert verified(folder)[0] == 1
        assert (
            hashlib.sha256((folder / "verify.py").read_bytes()).digest()
            == hashlib.sha256(Path(verify_evidence.__file__).read_bytes()).digest()
        )
        assert main(["audit", "verify", "--sync", "nowhere"]) == 0
        assert capsys.readouterr().out.startswith("10 entries"), "the export is an act"
        assert main(export_it) == 3
        assert "is not empty" in capsys.readouterr().err
        assert main(["audit", "export", "settlement", "--date", "2020-01-01", "--output", str(tmp_path / "x")]) == 3
        assert "no act is about 2020-01-01" in capsys.readouterr().err
