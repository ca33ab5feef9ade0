"""The evidence of a business date as a folder that somebody else verifies with Python alone: `verify_evidence.py`."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import BinaryIO

from seamline.domain import audit
from seamline.domain.audit import Entry, canonical_json, moment_text, verdict_json
from seamline.domain.errors import Refused
from seamline.platform import attachments, checks, reconciliations, verify_evidence
from seamline.platform.audit import entries
from seamline.platform.audit_anchor import AnchorLine, Anchors
from seamline.platform.database import Session

_OF_DATE = "select min(number), max(number) from audit_entry where sync = %s and business_date = %s"
_VERDICTS = """
select number, reconciliation_id from (
    select distinct on (run_id, destination, scope) run_id, destination, scope, number from audit_entry
    where sync = %s and business_date = %s and kind = any(%s) order by run_id, destination, scope, number desc
) newest join reconciliation using (run_id, destination, scope) order by number
"""


@dataclass(frozen=True, slots=True)
class Exported:
    """`files`: of those that were attached to breaks. `head`: the entry with which the exported chain ends.
    `is_anchored`: an anchor names it."""

    entries: int
    verdicts: int
    files: int
    head: int
    is_anchored: bool


def export(session: Session, *, sync: str, day: date, folder: Path, anchors: Sequence[Anchors]) -> Exported:
    """Write the evidence of a date into a folder that does not exist yet, or is empty. What is stored is written as it
    is, right or wrong: its verifier says so. The chain goes on to the next anchor, or to its head.

    Refused: the folder holds something, or no act is about the date.
    """
    if folder.exists() and any(folder.iterdir()):
        raise Refused(f"{folder} is not empty", hint="name a folder that does not exist yet")
    with session.transaction():
        session.execute("set transaction isolation level repeatable read, read only")
        first, last = session.execute(_OF_DATE, (sync, day)).fetchone() or (None, None)
        if first is None:
            raise Refused(
                f"no act is about {day} of sync {sync}",
                hint="`./seamline status` shows the dates that a sync has",
                sync=sync,
            )
        folder.mkdir(parents=True, exist_ok=True)
        anchored = _anchors(anchors, first, last)
        end = anchored[-1].head.number if anchored and anchored[-1].head else None
        return _write(session, sync, day, folder, anchored, (first, end))


def zip_into(made: BinaryIO, folder: Path) -> None:
    """The folder as a zip, its own name in front of each file's; read from its begin next."""
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    made.seek(0)


def _anchors(files: Sequence[Anchors], first: int, last: int) -> list[AnchorLine]:
    """Those of the chain from `first` to the least anchored entry from `last` on, by number; without one, none."""
    behind = min((line.head.number for line in _lines(files) if line.head and line.head.number >= last), default=None)
    if behind is None:
        return []
    within = [line for line in _lines(files) if line.head and first <= line.head.number <= behind]
    return sorted(within, key=lambda line: line.head.number if line.head else 0)


def _lines(files: Sequence[Anchors]) -> Iterator[AnchorLine]:
    return (line for file in files for line in file.lines())


def _write(
    session: Session,
    sync: str,
    day: date,
    folder: Path,
    anchored: Sequence[AnchorLine],
    bounds: tuple[int, int | None],
) -> Exported:
    first, end = bounds
    own = 0
    head: Entry | None = None
    previous = ""
    with (folder / "chain.jsonl").open("w", encoding="utf-8", newline="\n") as chain:
        for entry in entries(session, "number >= %s and (%s::bigint is null or number <= %s)", (first, end, end)):
            is_own = (entry.subject.sync, entry.subject.business_date) == (sync, day)
            own += is_own
            previous = previous or entry.previous
            chain.write(_link(entry) if is_own else _hashes(entry))
            head = entry
    assert head is not None
    verdicts = _write_verdicts(session, sync, day, folder)
    files = _write_files(session, sync, day, folder)
    named = [
        {"place": line.place, "number": line.head.number, "hash": line.head.hash} for line in anchored if line.head
    ]
    document: dict[str, object] = {
        "sync": sync,
        "business_date": day,
        "first": first,
        "previous": previous,
        "number": head.number,
        "hash": head.hash,
        "anchors": named,
        "exported_at": moment_text(datetime.now(UTC)),
    }
    (folder / "head.json").write_text(f"{canonical_json(document)}\n", encoding="utf-8")
    (folder / "verify.py").write_bytes(Path(verify_evidence.__file__).read_bytes())
    return Exported(own, verdicts, files, head.number, bool(named))


def _write_verdicts(session: Session, sync: str, day: date, folder: Path) -> int:
    kinds = [kind.value for kind in audit.ABOUT_VERDICTS]
    stored = session.execute(_VERDICTS, (sync, day, kinds)).fetchall()
    for number, reconciliation_id in stored:
        (found,) = reconciliations.read(session, "reconciliation_id = %s", (reconciliation_id,))
        # The very bytes that are hashed: `sha256sum` says what the entry says.
        (folder / f"verdict-{number}.json").write_bytes(canonical_json(verdict_json(found)).encode())
        left = checks.left(session, found)
        if left is not None:
            (folder / f"expectations-{number}.json").write_bytes(left.encode())
    return len(stored)


def _write_files(session: Session, sync: str, day: date, folder: Path) -> int:
    """Under the number of the entry, which has the name: a name that a person gave leads out of no folder."""
    written = 0
    for number, content in attachments.of_date(session, sync, day):
        (folder / f"file-{number}.bin").write_bytes(content)
        written += 1
    return written


def _link(entry: Entry) -> str:
    """With its content, as the canonical text that is hashed."""
    return f'{{"content":{entry.content},"hash":"{entry.hash}","number":{entry.number}}}\n'


def _hashes(entry: Entry) -> str:
    return f'{{"content_hash":"{entry.content_hash}","hash":"{entry.hash}","number":{entry.number}}}\n'
