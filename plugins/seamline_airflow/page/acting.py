"""Who may act on the page, and how an act is known to come from a form of the page itself.

An act is a POST. Its route takes `Worker` or `Signer` in place of `access.User`: the person has signed in, may do this
to the sync, and the request comes from a form of this page. The form carries `sync` and what `token_of` gave:

    <form method="post" action="…"><input type="hidden" name="token" value="{{ token }}">
    <input type="hidden" name="sync" value="{{ sync }}">…</form>

Its route answers with `done`, so that a reload repeats nothing. A program that sends its own credentials
(`Authorization: Bearer`) needs no token: no page of somebody else can make a browser send those.
"""

from typing import Annotated, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.sdk.configuration import conf
from fastapi import Depends, Form, HTTPException, Request
from fastapi.responses import RedirectResponse
from itsdangerous import BadSignature, SignatureExpired, URLSafeTimedSerializer

from seamline.domain.person import person_of
from seamline_airflow.page import access, reports, selection

# A form that stood open over a working day is still taken.
TOKEN_SECONDS = 12 * 3600
_SALT = "seamline page act"


def may_work(user: Any, sync: str) -> bool:
    """Whoever may start the sync's comparison may work on what it has found."""
    return _is_authorized(user, "POST", DagAccessEntity.RUN, f"{sync}__reconcile")


def may_repair(user: Any, sync: str) -> bool:
    """Whoever works on the sync, and may start the DAG of its repairs."""
    return may_work(user, sync) and _is_authorized(user, "POST", DagAccessEntity.RUN, f"{sync}__repair")


def may_cut(user: Any, sync: str) -> bool:
    """Whoever works on the sync, and may start the DAG of its nights."""
    return may_work(user, sync) and _is_authorized(user, "POST", DagAccessEntity.RUN, f"{sync}__nightly")


def may_load(user: Any, sync: str) -> bool:
    """Whoever works on the sync, and may start the DAG of its onboarding."""
    return may_work(user, sync) and _is_authorized(user, "POST", DagAccessEntity.RUN, f"{sync}__onboard")


def may_sign(user: Any, sync: str) -> bool:
    """The declared approvers; where none is declared, whoever Airflow lets answer a question of the nightly DAG."""
    if not _is_authorized(user, "PUT", DagAccessEntity.HITL_DETAIL, f"{sync}__nightly"):
        return False
    approvers = reports.approvers_of(sync)
    return not approvers or _id_of(user) in approvers


def is_trusted(user: Any, sync: str) -> bool:
    return may_work(user, sync) or may_sign(user, sync)


def name_of(user: Any) -> str:
    """As the log of acts names who starts a run, answers a question or acts here. Airflow's own login manager knows a
    person by a number besides."""
    return person_of(user.get_name())


def _id_of(user: Any) -> str:
    """By which Airflow knows the assigned of a question, and so `approvers`."""
    return str(user.get_id())


def token_of(user: Any) -> str:
    """What a form for this person carries; good for twelve hours."""
    return _signer().dumps(_id_of(user))


def done(path: str) -> RedirectResponse:
    """To the page that shows what has become of an act; `path` lies beside the form's own page."""
    return RedirectResponse(path, status_code=303)


def is_from_elsewhere(request: Request) -> bool:
    """Whether a link or a picture of another site has made a browser send this, in the name of whoever has signed in.
    An address that a person types is not, nor what a program asks."""
    if is_by_bearer(request):
        return False
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # As above: over http a browser says no more than where the link stood, and not always that.
    origin = urlsplit(request.headers.get("referer", "")).netloc
    return bool(origin) and origin not in _own(request)


def is_by_bearer(request: Request) -> bool:
    """Whether a program has sent its own credentials. Airflow then knows the person by them, not by a cookie."""
    return request.headers.get("authorization", "").lower().startswith("bearer ")


async def _from_this_page(request: Request, user: access.User) -> Any:
    """Who acts. 403 for what another page has made a browser send, and for a form of somebody else or of yesterday."""
    if is_by_bearer(request):
        return user
    if not _is_same_origin(request):
        raise HTTPException(status_code=403, detail="the form was not sent from this page")
    token = (await request.form()).get("token")
    try:
        made_for = _signer().loads(str(token), max_age=TOKEN_SECONDS)
    except SignatureExpired:
        raise HTTPException(status_code=403, detail="the form is older than 12 hours: load its page again") from None
    except BadSignature:
        raise HTTPException(status_code=403, detail="the form has no valid token: load its page again") from None
    if made_for != _id_of(user):
        raise HTTPException(status_code=403, detail="the form was made for somebody else: load its page again")
    return user


_Acting = Annotated[Any, Depends(_from_this_page)]
_Sync = Annotated[str, Form(pattern=selection.NAME)]


def require_worker(user: Any, sync: str) -> None:
    """403 for who may not."""
    access.require(user, sync)
    if not may_work(user, sync):
        raise HTTPException(status_code=403, detail=f"you may look at {sync} and not work on it")


def require_repairer(user: Any, sync: str) -> None:
    """403 for who may not."""
    require_worker(user, sync)
    if not may_repair(user, sync):
        raise HTTPException(status_code=403, detail=f"Airflow does not let you start {sync}__repair")


def require_cutter(user: Any, sync: str) -> None:
    """403 for who may not."""
    require_worker(user, sync)
    if not may_cut(user, sync):
        raise HTTPException(status_code=403, detail=f"Airflow does not let you start {sync}__nightly")


def require_loader(user: Any, sync: str) -> None:
    """403 for who may not."""
    require_worker(user, sync)
    if not may_load(user, sync):
        raise HTTPException(status_code=403, detail=f"Airflow does not let you start {sync}__onboard")


def require_signer(user: Any, sync: str) -> None:
    """403 for who may not."""
    access.require(user, sync)
    if not may_sign(user, sync):
        named = " or ".join(reports.approvers_of(sync))
        raise HTTPException(status_code=403, detail=f"you may not sign for {sync}{f': {named} may' if named else ''}")


def require_trusted(user: Any, sync: str) -> None:
    """403 for who may not."""
    access.require(user, sync)
    if not is_trusted(user, sync):
        raise HTTPException(status_code=403, detail=f"you may look at {sync} and not take its rows away")


def _worker(user: _Acting, sync: _Sync) -> Any:
    require_worker(user, sync)
    return user


def _signs(user: _Acting, sync: _Sync) -> Any:
    require_signer(user, sync)
    return user


def _trusted(user: _Acting, sync: _Sync) -> Any:
    require_trusted(user, sync)
    return user


Worker = Annotated[Any, Depends(_worker)]
# Whoever may work or sign: what is stored of rows is for them.
Trusted = Annotated[Any, Depends(_trusted)]
Signer = Annotated[Any, Depends(_signs)]


def _is_authorized(user: Any, method: Any, entity: DagAccessEntity, dag_id: str) -> bool:
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=DagDetails(id=dag_id), user=user
        )
    )


def _is_same_origin(request: Request) -> bool:
    # Browsers send `Sec-Fetch-Site` to https and to their own machine only, and `Origin` with every POST.
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", "")).netloc
    return bool(origin) and origin in _own(request)


def _own(request: Request) -> set[str]:
    return {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="")).netloc}


def _signer() -> URLSafeTimedSerializer:
    # Every API server of one Airflow has the same key: it signs the sessions.
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt=_SALT)
