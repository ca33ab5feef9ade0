"""Files of breaks in a real PostgreSQL: versions, what a signature locks, and how log and evidence hold them."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest

from seamline.domain.attachment import FILES_MAX, File, checked
from seamline.domain.audit import Act, Kind, Subject
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.platform.attachments import Holder, PlatformAttachments
from seamline.platform.audit import append
from seamline.platform.audit_export import export
from seamline.platform.database import Database
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import PlatformStore
from seamline.platform.work import PlatformWork
from tests.integration.platform_database import Server, plan, stored_id
from tests.integration.test_audit import DAY, logged
from tests.integration.test_audit_export import edit, verified
from tests.integration.test_platform import reconciliation
from tests.integration.test_signatures import TAKE, WHERE, faults, publish, sign, tamper
from tests.integration.test_signatures import server as server
from tests.integration.test_signatures import signatures as signatures
from tests.integration.test_signatures import store as store
from tests.integration.test_signatures import template as template

LETTER = File("letter.pdf", b"%PDF first")
NEWER = File("letter.pdf", b"%PDF second \0\xff")
ID = stored_id(reconciliation().tables[0].breaks[0])
OF_BREAK, OF_TAKE = Holder("settlement", break_id=ID), Holder("settlement", run_id="r1", destination="warehouse")


@pytest.fixture
def files(store: PlatformStore, server: Server) -> Iterator[PlatformAttachments]:
    """With a published cut that has two breaks."""
    publish(store, verdict=Verdict.BREAK)
    with closing(PlatformAttachments(Database(server.open))) as opened:
        yield opened


def publish_later(store: PlatformStore) -> None:
    """The cut of the next date, which has no break any more."""
    at = reconciliation().ended_at + timedelta(days=1)
    table = replace(reconciliation().tables[0], verdict=Verdict.MATCH, breaks=(), breaks_total=0)
    day = date(2026, 3, 2)
    store.start_run(run_id="r2", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=day)
    found = replace(reconciliation(Verdict.MATCH), run_id="r2", business_date=day, tables=(table,))
    store.save_reconciliation(replace(found, started_at=at, ended_at=at))


def versions(files: PlatformAttachments, sync: str = "settlement") -> list[tuple[str, int, str]]:
    return [(one.name, one.version, one.sha256) for one in files.files(Holder(sync, break_id=ID))]


def test_the_same_name_is_the_next_version_the_same_bytes_are_none_and_older_ones_stay(
    files: PlatformAttachments, server: Server
) -> None:
    for file in (LETTER, LETTER, NEWER, File("other.pdf", LETTER.content), LETTER):
        files.attach(OF_BREAK, file, who="ann")
    assert versions(files) == [
        ("letter.pdf", 3, LETTER.sha256),
        ("letter.pdf", 2, NEWER.sha256),
        ("letter.pdf", 1, LETTER.sha256),
        ("other.pdf", 1, LETTER.sha256),
    ]
    assert versions(files, "another") == []
    stored = files.files(OF_BREAK)
    for one, content in zip(stored[:2], (LETTER.content, NEWER.content), strict=True):
        assert files.taken(OF_BREAK, one.number) == (
            Subject("settlement", "warehouse", DAY, "r1", "cut"),
            File("letter.pdf", content),
        )
        assert one.size == len(content)
    for sync, name, number in (("another", ID, stored[0].number), ("settlement", "0" * 16, stored[0].number)):
        assert files.taken(Holder(sync, break_id=name), number) is None
    with closing(PlatformWork(Database(server.open))) as work:
        assert [(one.kind, one.who, one.comment) for one in work.deeds(ID)][0] == (
            "attached",
            "ann",
            "letter.pdf, version 3",
        )
    assert faults(server) == []


def test_a_file_of_no_break_or_one_too_many_is_refused_and_leaves_no_entry(
    files: PlatformAttachments, server: Server
) -> None:
    before = len(logged(server))
    for sync, name in (("settlement", "0" * 16), ("another", ID)):
        with pytest.raises(Refused, match="has no break"):
            files.attach(Holder(sync, break_id=name), LETTER, who="ann")
    assert len(logged(server)) == before
    for number in range(FILES_MAX):
        files.attach(OF_BREAK, File("a", str(number).encode()), who="ann")
    with pytest.raises(Refused, match="at most 100 files"):
        files.attach(OF_BREAK, File("a", b"one more"), who="ann")
    assert len(versions(files)) == FILES_MAX


def test_nothing_is_attached_to_a_signed_date_until_it_is_re_opened(
    files: PlatformAttachments, signatures: PlatformSignatures, store: PlatformStore, server: Server
) -> None:
    files.attach(OF_BREAK, LETTER, who="eve")
    sign(signatures, "ann", "known")
    with pytest.raises(Refused, match="run r1 is signed by ann: re-open it first"):
        files.attach(OF_BREAK, NEWER, who="eve")
    signatures.reopen(TAKE, who="bob", reason="a letter is missing")
    files.attach(OF_BREAK, NEWER, who="eve")
    sign(signatures, "ann", "known")
    # It is gone by the next comparison, and still belongs to the signed date.
    publish_later(store)
    with pytest.raises(Refused, match="run r1 is signed by ann"):
        files.attach(OF_BREAK, LETTER, who="eve")
    assert [version for _, version, _ in versions(files)] == [2, 1]
    assert faults(server) == []


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update attachment set name = 'x'", "files of breaks are kept: UPDATE is refused"),
        ("update attachment set content = 'x'", "files of breaks are kept: UPDATE is refused"),
        ("delete from attachment", "files of breaks are kept: DELETE is refused"),
        ("truncate attachment", "files of breaks are kept: TRUNCATE is refused"),
        (f"insert into attachment values (1, '{ID}', 'x', 1, 'x')", "entry 1 is not about version 1 of this file"),
        (
            f"insert into attachment select number, '{ID}', 'x', 1, 'x' from attachment",
            "is not about version 1 of this file",
        ),
    ],
)
def test_the_database_refuses_to_change_a_file_and_takes_none_without_its_entry(
    files: PlatformAttachments, server: Server, statement: str, said: str
) -> None:
    files.attach(OF_BREAK, LETTER, who="ann")
    with server.open() as session, pytest.raises(psycopg.Error, match=said):
        session.execute(statement.encode())
    assert versions(files) == [("letter.pdf", 1, LETTER.sha256)]


def test_the_log_itself_takes_no_entry_of_a_file_about_a_signed_take(
    files: PlatformAttachments, signatures: PlatformSignatures, server: Server
) -> None:
    assert files.files(OF_BREAK) == ()
    sign(signatures, "ann", "known")
    act = Act(Kind.ATTACHED, Subject("settlement", "warehouse", DAY, "r1", "cut"), {"file": "x"}, "eve", "page")
    with server.open() as session, pytest.raises(psycopg.Error, match="run r1 is signed by ann"):
        append(session, act)


TAMPERED = {
    "its bytes": ("update attachment set content = content || '!'", "{where}: the file was changed after entry {n}"),
    "its name": ("update attachment set name = 'other.pdf'", "{where}: the file was changed after entry {n}"),
    "its version": ("update attachment set version = 7", "{where}: the file was changed after entry {n}"),
    "its break": ("update attachment set break_id = 'x'", "{where}: the file was changed after entry {n}"),
    "a file that is gone": ("delete from attachment", "{where}: the file of entry {n} (attached) is missing"),
    "a file that was inserted": (
        "insert into attachment select 1, break_id, 'x', 1, content from attachment",
        "file 1 was inserted: no entry names it",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_file_that_was_changed_removed_or_inserted_behind_the_log_is_named(
    files: PlatformAttachments, server: Server, what: str
) -> None:
    files.attach(OF_BREAK, LETTER, who="ann")
    (one,) = files.files(OF_BREAK)
    statement, fault = TAMPERED[what]
    tamper(server, statement)
    expected = fault.format(where=WHERE, n=one.number)
    found = faults(server)
    assert len(found) == 1 and found[0].startswith(expected)
    if what == "its bytes":
        with pytest.raises(InvariantViolated, match="is not what was attached"):
            files.taken(OF_BREAK, one.number)


def test_a_file_of_a_take_has_versions_of_its_own_and_none_comes_once_it_is_signed(
    files: PlatformAttachments, signatures: PlatformSignatures, store: PlatformStore, server: Server, tmp_path: Path
) -> None:
    files.attach(OF_BREAK, LETTER, who="ann")
    for file in (LETTER, LETTER, NEWER):
        files.attach(OF_TAKE, file, who="ann")
    assert [(one.name, one.version) for one in files.files(OF_TAKE)] == [("letter.pdf", 2), ("letter.pdf", 1)]
    assert versions(files) == [("letter.pdf", 1, LETTER.sha256)]
    newest = files.files(OF_TAKE)[0].number
    assert files.taken(OF_TAKE, newest) == (Subject("settlement", "warehouse", DAY, "r1", "cut"), NEWER)
    assert files.taken(OF_BREAK, newest) is None
    for other in (replace(OF_TAKE, sync="another"), replace(OF_TAKE, run_id="r9"), replace(OF_TAKE, destination="x")):
        with pytest.raises(Refused, match="has compared no cut"):
            files.attach(other, LETTER, who="ann")
    sign(signatures, "ann", "known")
    with pytest.raises(Refused, match="run r1 is signed by ann: re-open it first"):
        files.attach(OF_TAKE, LETTER, who="eve")
    publish(store, "r2", verdict=Verdict.BREAK, version=2)
    files.attach(replace(OF_TAKE, run_id="r2"), LETTER, who="eve")
    assert faults(server) == []
    with server.open() as session:
        assert export(session, sync="settlement", day=DAY, folder=tmp_path / "evidence", anchors=()).files == 4
    assert verified(tmp_path / "evidence")[0] == 0
    tamper(server, "update attachment set run_id = 'r2' where run_id = 'r1' and version = 2")
    assert faults(server) == [f"{WHERE}: the file was changed after entry {newest} (attached)"]


def test_the_evidence_of_a_date_has_its_files_and_its_verifier_names_one_that_was_changed(
    files: PlatformAttachments, server: Server, tmp_path: Path
) -> None:
    hostile = checked("../../verify.py", b"import os\r\n\0\xff")
    for file in (LETTER, NEWER, hostile):
        files.attach(OF_BREAK, file, who="ann")
    folder = tmp_path / "evidence"
    with server.open() as session:
        made = export(session, sync="settlement", day=DAY, folder=folder, anchors=())
    assert made.files == 3
    assert verified(folder)[0] == 0
    attached = [one for one in logged(server) if one.kind == "attached"]
    for entry, file in zip(attached, (LETTER, NEWER, hostile), strict=True):
        content = (folder / f"file-{entry.number}.bin").read_bytes()
        assert content == file.content
        assert hashlib.sha256(content).hexdigest() == json.loads(entry.document)["sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence"]
    number = attached[0].number
    edit(f"file-{number}.bin", "first", "other")(folder)
    (folder / f"file-{attached[1].number}.bin").unlink()
    (folder / "file-9999.bin").write_bytes(b"x")
    code, lines = verified(folder)
    assert (code, [line for line in lines if line.startswith("FAULT")]) == (
        1,
        [
            f'FAULT  file-{number}.bin: the file "letter.pdf", version 1, was changed',
            f'FAULT  file-{attached[1].number}.bin: the file "letter.pdf", version 2, is missing',
            "FAULT  file-9999.bin: no entry names it",
        ],
    )
