"""Files that people take away. Each is an entry of the log of acts before it leaves: without the entry no file."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, BinaryIO
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.responses import StreamingResponse

from seamline.domain.audit import FROM_PAGE, Act, Subject
from seamline.domain.exported import Print, exported_act, print_of
from seamline_airflow import parts
from seamline_airflow.page import access, acting

_PIECE_BYTES = 256 * 1024
_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pdf": "application/pdf",
    "zip": "application/zip",
}


class AskedElsewhere(Exception):
    """Another site has made a browser ask for a file. `here`: where a person asks for it."""

    def __init__(self, here: str) -> None:
        super().__init__(here)
        self.here = here


def _taker(request: Request, user: access.User) -> Any:
    if acting.is_from_elsewhere(request):
        raise AskedElsewhere(_beside(request))
    return user


# Whoever takes a file by an address: that is an act, so no link of another site does it in a person's name.
Taker = Annotated[Any, Depends(_taker)]


def _beside(request: Request) -> str:
    """The page from which the file is taken."""
    names = ("run", "destination", "scope") if "/breaks." in request.url.path else ("business_date", "run")
    asked = {name: request.query_params.get(name, "") for name in ("sync", *names)}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{'breaks' if '/breaks.' in request.url.path else 'page'}?{query}"


def handed_out(
    user: Any,
    content: bytes,
    *,
    about: Subject,
    file: str,
    rows: int,
    chosen: Mapping[str, str] | None = None,
    origin: str = FROM_PAGE,
) -> Response:
    """`file`: its name, of letters that break out of no header; its ending is one of those above."""
    who = acting.name_of(user)
    _enter(exported_act(about, print_of(content), who=who, origin=origin, file=file, rows=rows, chosen=chosen or {}))
    return Response(content, media_type=_type(file), headers=_named(file))


def streamed(
    user: Any, content: BinaryIO, *, about: Subject, file: str, rows: int, origin: str = FROM_PAGE
) -> StreamingResponse:
    """The same of what may be too large for the server's memory. It is closed when it has left, or nobody takes it."""
    try:
        found = hashlib.file_digest(content, "sha256")
        known = Print(content.seek(0, os.SEEK_END), found.hexdigest())
        who = acting.name_of(user)
        _enter(exported_act(about, known, who=who, origin=origin, file=file, rows=rows, chosen={}))
        content.seek(0)
    except BaseException:
        content.close()
        raise
    headers = _named(file) | {"Content-Length": str(known.bytes)}
    return StreamingResponse(_pieces(content), media_type=_type(file), headers=headers)


def _pieces(content: BinaryIO) -> Iterator[bytes]:
    with content:
        while piece := content.read(_PIECE_BYTES):
            yield piece


def _enter(act: Act) -> None:
    with parts.audit() as log:
        log.enter(act)


def _type(file: str) -> str:
    return _TYPES[file.rpartition(".")[2]]


def _named(file: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{file}"'}
