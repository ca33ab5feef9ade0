"""A file that a person attaches to a break or to a take of a date: what is taken, and what the log of acts says."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from seamline.domain.break_work import breaks_document
from seamline.domain.errors import Refused
from seamline.domain.person import one_line

BYTES_MAX = 10 * 1024 * 1024
# Of one break or take, all versions counted.
FILES_MAX = 100
NAME_MAX = 150
# An ending is kept where a longer name is cut.
_ENDING_MAX = 20
# Nothing that a browser shows, and no name by which it could guess better.
CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class File:
    """What a person attaches. `name`: as `checked` has left it."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Attachment:
    """One version of a file, without its bytes. `number`: of its entry in the log of acts. `version`: from 1 for each
    name. `size`: bytes. `sha256`: by the log, lower hex."""

    number: int
    name: str
    version: int
    size: int
    sha256: str
    who: str
    at: datetime


def checked(name: str, content: bytes) -> File:
    """The file under the name that is kept. Refused: it has no name, is empty or too large."""
    plain = name_of(name)
    if not content:
        raise Refused(f"{plain} is empty" if plain else "choose a file")
    if not plain:
        raise Refused("the file has no name that can be shown")
    if len(content) > BYTES_MAX:
        raise Refused(f"a file has at most {BYTES_MAX:,} bytes, {plain} has more")
    return File(plain, content)


def name_of(given: str) -> str:
    """The last part of a path, of either kind of system, on one line and without what cannot be seen; no dot in front,
    at most `NAME_MAX` letters. "" where nothing is left."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", given))[-1]
    # What turns the text around it, or takes no room, is no part of a name: it is left out and not made a blank.
    seen = "".join(letter for letter in last if unicodedata.category(letter) != "Cf")
    plain = one_line(seen).strip(" .")
    if len(plain) <= NAME_MAX:
        return plain
    stem, dot, ending = plain.rpartition(".")
    kept = f".{ending}" if dot and len(ending) <= _ENDING_MAX else ""
    return f"{(stem if kept else plain)[: NAME_MAX - len(kept)].rstrip(' .')}{kept}"


def disposition(name: str) -> str:
    """The header that lets a browser save the file under its name and never show it; in letters of ASCII alone."""
    ascii_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


def attached_document(file: File, version: int, break_id: str = "") -> dict[str, object]:
    """What the log of acts says of it. The SHA-256 is of the very bytes: `sha256sum` of the file prints it. Without
    `break_id` it is of the take that the entry is about."""
    said = {"bytes": len(file.content), "file": file.name, "sha256": file.sha256, "version": version}
    return {**(breaks_document([break_id]) if break_id else {}), **said}
