"""What the log of acts says of a file that somebody took away. Pure."""

import hashlib
from collections.abc import Mapping

from seamline.domain.audit import Act, Kind, Subject


def exported_act(
    subject: Subject,
    content: bytes,
    *,
    who: str,
    origin: str,
    file: str,
    rows: int,
    chosen: Mapping[str, str],
) -> Act:
    """`file`: its name; the ending says the format. `rows`: how many rows that differ are in it. `chosen`: the filter
    by which it was made; what is "" did not filter. The SHA-256 is of the very bytes: `sha256sum` of the file prints
    it."""
    document = {
        "bytes": len(content),
        "file": file,
        "filter": {name: value for name, value in chosen.items() if value},
        "format": file.rpartition(".")[2],
        "rows": rows,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return Act(Kind.EXPORTED, subject, document, who, origin)
