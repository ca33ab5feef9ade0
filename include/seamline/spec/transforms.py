"""Files of transforms: `include/transforms/<name>.sql` or `.py`, which tables and derived tables of syncs name."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from seamline.spec.document import Document
from seamline.spec.faults import guess, redacted
from seamline.spec.sync import SyncSpec

_FOLDER = "transforms"
# A query of more is none that a person reads.
_BYTES_MAX = 1 << 20


def check_transforms(document: Document, folder: Path) -> None:
    """Add to a sync's document which files of transforms cannot be read, and which stand at what is no destination of
    it. `folder`: of all declarations."""
    _check_destinations(document)
    for place, declared in document.texts("tables[].transform", "tables[].transform{}", "derived[].transform"):
        if not document.is_right(place[:3]):
            continue
        file = file_of(declared, folder)
        try:
            text = file.read_bytes().decode() if file.stat().st_size <= _BYTES_MAX else None
        except FileNotFoundError:
            known = [f"include/{_FOLDER}/{one.name}" for one in sorted((folder / _FOLDER).glob("*.*"))]
            document.fault(place, f"there is no file {declared}", guess(declared, known) or "Write it there")
        except (OSError, UnicodeDecodeError) as exc:
            document.fault(place, f"{declared} cannot be read: {exc}")
        else:
            if text is None or not text.strip():
                what = "is empty" if text is not None else f"has more than {_BYTES_MAX:,} bytes"
                document.fault(place, f"{declared} {what}", "It holds one SELECT, or a Python function `transform`")


def _check_destinations(document: Document) -> None:
    known = [name for _, name in document.texts("destinations[]")]
    for place, _ in document.texts("tables[].transform{}"):
        name = str(place[-1])
        if name not in known:
            document.fault(place, f"{redacted(name)} is no destination of this sync", guess(name, known))


def texts_of(syncs: Iterable[SyncSpec], folder: Path) -> Mapping[str, str]:
    """By path as declared the text of each file that these syncs name."""
    named: set[str | None] = set()
    for sync in syncs:
        named.update(entry.transform_at(one) for entry in sync.tables for one in sync.destinations)
        named.update(entry.transform for entry in sync.derived)
    return {one: file_of(one, folder).read_text(encoding="utf-8") for one in sorted(filter(None, named))}


def file_of(declared: str, folder: Path) -> Path:
    """`include/` stands for the folder of declarations, wherever that is."""
    return folder / _FOLDER / Path(declared).name
