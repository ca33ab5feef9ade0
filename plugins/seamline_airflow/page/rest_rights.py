"""Who may read and act by REST. An act is a POST of JSON by a program's own credentials, never by a cookie: no page of
somebody else can make a browser send those."""

from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request

from seamline_airflow.page import access, acting, selection
from seamline_airflow.page import rest_answers as answers

REFUSED: dict[int | str, dict[str, Any]] = {
    409: {"model": answers.Problem, "description": "it is not possible now; nothing was changed"}
}
BY_BEARER = (
    "an act by REST needs `Authorization: Bearer` with a token of Airflow's `POST /auth/token`; the cookie of the page"
    " is for its forms"
)

_InPath = Annotated[str, Path(pattern=selection.NAME)]


def visible(user: access.User, sync: _InPath) -> str:
    access.require(user, sync)
    return sync


def _program(request: Request, user: access.User) -> Any:
    if not acting.is_by_bearer(request):
        raise HTTPException(status_code=403, detail=BY_BEARER)
    return user


_Program = Annotated[Any, Depends(_program)]


def _worker(user: _Program, sync: _InPath) -> Any:
    acting.require_worker(user, sync)
    return user


def _signer(user: _Program, sync: _InPath) -> Any:
    acting.require_signer(user, sync)
    return user


def _trusted(user: _Program, sync: _InPath) -> Any:
    acting.require_trusted(user, sync)
    return user


# The name of a sync that the user may see.
SyncName = Annotated[str, Depends(visible)]
Worker = Annotated[Any, Depends(_worker)]
Signer = Annotated[Any, Depends(_signer)]
# Whoever may work or sign.
Trusted = Annotated[Any, Depends(_trusted)]
