"""Airflow of the demo's stack, asked as its users."""

from typing import Any

import httpx

from seamline import settings
from seamline.adapters.airflow_rest import FINISHED, AirflowRest
from seamline.stack import credentials
from seamline.stack.layout import Layout
from tests.waiting import wait_until

# An answer is waited for as long as a busy machine may need; httpx by itself gives up after 5 s.
ANSWER_WITHIN_S = 60
RUN_WITHIN_S = 300


def address() -> str:
    return f"http://127.0.0.1:{settings.load().ports.airflow}"


def ask_airflow(method: str, path: str, **request: Any) -> httpx.Response:
    """Each request stands by itself: no cookie that an answer sets proves anything with the next."""
    return httpx.request(
        method, address() + path, timeout=ANSWER_WITHIN_S, trust_env=False, follow_redirects=True, **request
    )


def password(user: str) -> str:
    return credentials.load_or_make(Layout(settings.load()))[f"airflow_user_{user}"]


def token_of(user: str) -> str:
    login = {"username": user, "password": password(user)}
    return str(ask_airflow("POST", "/auth/token", json=login).json()["access_token"])


def signed_in(user: str = "operator") -> AirflowRest:
    return AirflowRest(address(), user, password(user))


def by_hand(dag_id: str) -> set[str]:
    """The runs of a DAG that somebody has triggered."""
    with signed_in() as airflow:
        return {one.run_id for one in airflow.runs(dag_id) if one.run_id.startswith("manual__")}


def end_of_new_run(dag_id: str, known: set[str]) -> tuple[str, str]:
    """Of the run that was triggered since: its id, and its state once it has ended."""

    def ended() -> tuple[str, str] | None:
        new = [one for one in airflow.runs(dag_id) if one.run_id.startswith("manual__") and one.run_id not in known]
        return (new[0].run_id, new[0].state) if new and new[0].state in FINISHED else None

    with signed_in() as airflow:
        return wait_until(ended, timeout_s=RUN_WITHIN_S, what=f"a run of {dag_id} to end", every_s=1)
