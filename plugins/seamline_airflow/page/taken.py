"""Files that people take away. Each is an entry of the log of acts before it leaves: without the entry no file."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response

from seamline.domain.audit import FROM_PAGE, Subject
from seamline.domain.exported import exported_act
from seamline_airflow import parts
from seamline_airflow.page import access, acting

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
    act = exported_act(
        about, content, who=acting.name_of(user), origin=origin, file=file, rows=rows, chosen=chosen or {}
    )
    with parts.audit() as log:
        log.enter(act)
    return Response(
        content,
        media_type=_TYPES[file.rpartition(".")[2]],
        headers={"Content-Disposition": f'attachment; filename="{file}"'},
    )
