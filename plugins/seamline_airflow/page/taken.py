"""Files that people take away. Each is an entry of the log of acts before it leaves: without the entry no file."""

from collections.abc import Mapping
from typing import Any

from fastapi import Response

from seamline.domain.audit import FROM_PAGE, Subject
from seamline.domain.exported import exported_act
from seamline_airflow import parts
from seamline_airflow.page import acting

_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pdf": "application/pdf",
    "zip": "application/zip",
}


def handed_out(
    user: Any, content: bytes, *, about: Subject, file: str, rows: int, chosen: Mapping[str, str] | None = None
) -> Response:
    """`file`: its name, of letters that break out of no header; its ending is one of those above."""
    act = exported_act(
        about, content, who=acting.name_of(user), origin=FROM_PAGE, file=file, rows=rows, chosen=chosen or {}
    )
    with parts.audit() as log:
        log.enter(act)
    return Response(
        content,
        media_type=_TYPES[file.rpartition(".")[2]],
        headers={"Content-Disposition": f'attachment; filename="{file}"'},
    )
