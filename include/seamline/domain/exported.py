"""What the log of acts says of a file that somebody took away. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from seamline.domain.audit import Act, Kind, Subject


@dataclass(frozen=True, slots=True)
class Print:
    """By which the very bytes of a file are known again. `sha256`: in hex, as `sha256sum` of the file prints it."""

    bytes: int
    sha256: str


def print_of(content: bytes) -> Print:
    return Print(len(content), hashlib.sha256(content).hexdigest())


def exported_act(
    subject: Subject,
    content: Print,
    *,
    who: str,
    origin: str,
    file: str,
    rows: int,
    chosen: Mapping[str, str],
) -> Act:
    """`file`: its name; the ending says the format. `rows`: how many rows that differ are in it. `chosen`: the filter
    by which it was made; what is "" did not filter."""
    document = {
        "bytes": content.bytes,
        "file": file,
        "filter": {name: value for name, value in chosen.items() if value},
        "format": file.rpartition(".")[2],
        "rows": rows,
        "sha256": content.sha256,
    }
    return Act(Kind.EXPORTED, subject, document, who, origin)
