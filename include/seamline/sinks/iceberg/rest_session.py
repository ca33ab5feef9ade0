"""How calls to a REST catalogue go out: none waits for ever, a server that is busy is asked again, and no secret
follows a redirect to somebody else."""

from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from seamline.domain.errors import Refused

# Seconds. A server writes a metadata file of each table before it answers.
_CONNECT_S, _ANSWER_S = 10.0, 120.0
# A busy server is asked so often, after so many seconds at most: then the stream's own patience counts.
_REPEATS, _WAIT_MAX_S = 4, 30.0
_REFUSED_UNREAD = 429
_OF_A_READ = (408, 503)
_AS_A_READ = (301, 302, 303)
_PORTS = {"http": 80, "https": 443}


class _Busy(Retry):
    """After `Retry-After`, or a pause that grows. A call that was not looked at is sent again whatever it is; of the
    other answers nobody knows whether the call was taken, so that only reads are."""

    def is_retry(self, method: str, status_code: int, *_: Any, **__: Any) -> bool:
        return bool(self.total) and (
            status_code == _REFUSED_UNREAD or (method in ("GET", "HEAD") and status_code in _OF_A_READ)
        )

    def get_retry_after(self, response: Any) -> float | None:
        said = super().get_retry_after(response)
        return None if said is None else min(said, _WAIT_MAX_S)


class _Patient(HTTPAdapter):
    """`ca`: a PEM file by which servers are verified; "" for the system's."""

    def __init__(self, ca: str) -> None:
        self._ca = ca
        again = _Busy(_REPEATS, connect=0, read=False, other=0, backoff_factor=0.5, raise_on_status=False)
        super().__init__(max_retries=again)

    def send(self, request: Any, *more: Any, **known: Any) -> Any:
        known["timeout"] = known.get("timeout") or (_CONNECT_S, _ANSWER_S)
        if self._ca:
            # To requests a variable as REQUESTS_CA_BUNDLE goes before what a session says.
            known["verify"] = self._ca
        return super().send(request, *more, **known)


def guarded(session: requests.Session) -> requests.Session:
    """The same session. A call of it raises Refused where it is redirected elsewhere."""
    ca = session.verify if isinstance(session.verify, str) else ""
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Patient(ca))
    session.hooks["response"].append(_refuse_to_follow)
    return session


def _refuse_to_follow(answer: requests.Response, *_: Any, **__: Any) -> None:
    """By three of the codes a call that changes something is followed as one that reads, whose answer would be taken
    for the first one's."""
    if not answer.is_redirect:
        return
    url, method = str(answer.url), str(answer.request.method)
    there = urljoin(url, answer.headers["location"])
    if _origin(there) != _origin(url):
        raise Refused(
            f"the catalogue redirects a call from {_shown(url)} to {_shown(there)}, which would get the client's token",
            hint="write the address that the catalogue really has into its connection",
        )
    if method not in ("GET", "HEAD") and answer.status_code in _AS_A_READ:
        raise Refused(
            f"the catalogue redirects {method} {urlsplit(url).path} to {urlsplit(there).path}, as one that wants"
            " another login or has another address",
            hint="write the address that the catalogue really has into its connection, and a login that it takes",
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def _shown(url: str) -> str:
    """Without what may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
