"""Every route of the page and of REST, by who asks. A route that has no row here is a failure: add one.

The routes are those of the app as it is mounted, so whatever is added to it is found.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI, HTTPException, Request
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from httpx import Response

from seamline.domain.audit import Kind, verdict_act
from seamline.domain.break_id import break_id
from seamline.domain.decision import DECISION, Decision, DecisionState
from seamline.domain.runs import EXPECTATIONS, RunState, Scope
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline_airflow import parts
from seamline_airflow.page import access, acting, reports
from seamline_airflow.page.app import app
from seamline_airflow.page.mount import URL_PREFIX
from tests.dags import results

PEOPLE = {
    "viewer": SimpleAuthManagerUser(username="viewer", role="viewer"),
    "operator": SimpleAuthManagerUser(username="operator", role="op"),
    "approver": SimpleAuthManagerUser(username="approver", role="op"),
}
OWN = {"Sec-Fetch-Site": "same-origin"}
BEARER = {"Authorization": "Bearer of this person"}
LIVE = "settlement/reconcile/-/manual__3"


@dataclass(frozen=True, slots=True)
class Row:
    """How a route is asked, in one way or several. `form`: of an act; by REST `body`, as JSON. `may`: who gets the
    `answer`; the others a 403.

    An act is held here by who may: where a database of its own holds what becomes of it, the form asks for something
    that is refused to whoever may, with 409 or 422.
    """

    asked: tuple[str, ...] = ("",)
    form: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    may: tuple[str, ...] = tuple(PEOPLE)
    answer: int = 200


_SYNC = "/api/v1/syncs/{sync}"
_DAY, _RUN = f"business_date={results.DATE}", f"run={results.RUN}"
_OF_DAY = f"?sync=settlement&{_DAY}"
_BREAKS = f"?sync=settlement&{_RUN}"
# There is no version 0.
_VERSION = {"business_date": str(results.DATE), "destination": "warehouse", "version": "0"}
_WORKERS = ("operator", "approver")
_PAGES = (
    "",
    "?sync=settlement",
    _OF_DAY,
    f"{_OF_DAY}&{_RUN}",
    f"?sync=settlement&run={LIVE}",
    "?dag_id=settlement__nightly&run_id=manual__1",
    "?dag_id=settlement__reconcile&run_id=manual__3",
    "?sync=settlement&before=2027-01-01&compared_before=2027-01-01T00:00:00Z",
)
ROWS = {
    "GET /page": Row(_PAGES),
    "GET /style.css": Row(),
    "GET /language": Row(("?to=zh-CN", "?to=en&here=page%3Fsync%3Dsettlement"), answer=303),
    "GET /breaks": Row((_BREAKS, f"{_BREAKS}&sort=type&kind=value", f"?sync=settlement&run={LIVE}&scope=live")),
    "GET /breaks.xlsx": Row((_BREAKS,)),
    "GET /breaks.csv": Row((_BREAKS,)),
    "GET /break": Row(("?sync=settlement&id={break_id}",)),
    "GET /export.json": Row((_OF_DAY, f"?sync=settlement&run={LIVE}")),
    "GET /export.csv": Row((_OF_DAY, f"?sync=settlement&run={LIVE}")),
    "GET /export.xlsx": Row((_OF_DAY,)),
    # It takes a second to make one.
    "GET /export.pdf": Row((f"?sync=settlement&run={LIVE}",)),
    "POST /act": Row(form={"id": "{break_id}", "doing": "assign"}, may=_WORKERS, answer=409),
    "POST /act_on_all": Row(
        form={"run": results.RUN, "destination": "warehouse", "doing": "assign"}, may=_WORKERS, answer=409
    ),
    # No file is sent, and there is no such file.
    "POST /attach": Row(form={"id": "{break_id}"}, may=_WORKERS, answer=422),
    "POST /attachment": Row(form={"id": "{break_id}", "number": "1"}, may=_WORKERS, answer=404),
    "POST /attach_to_date": Row(form={"run": "r", "destination": "d"}, may=_WORKERS, answer=422),
    "POST /attachment_of_date": Row(form={"run": "r", "destination": "d", "number": "1"}, may=_WORKERS, answer=404),
    "POST /sign": Row(form=_VERSION | {"verdict_hash": "none"}, may=("approver",), answer=422),
    "POST /reopen": Row(form=_VERSION, may=_WORKERS, answer=422),
    "POST /acknowledge": Row(form={"business_date": "none"}, may=_WORKERS, answer=422),
    "POST /acknowledge_source": Row(form={"source": "s", "since": "none"}, may=_WORKERS, answer=422),
    "POST /restate": Row(form={"business_date": "none"}, may=_WORKERS, answer=422),
    "GET /declaration": Row(("?sync=settlement",)),
    "POST /propose_change": Row(form={"change": "run_at", "value": "late", "reason": "r"}, may=_WORKERS, answer=409),
    "POST /accept_change": Row(form={"number": "0"}, may=("approver",), answer=422),
    "POST /withdraw_change": Row(form={"number": "0"}, may=_WORKERS, answer=422),
    "POST /order_stream": Row(form={"destination": "warehouse", "order": "pause"}, may=_WORKERS, answer=422),
    "POST /load_again": Row(form={"destination": "warehouse", "reason": " "}, may=_WORKERS, answer=409),
    "GET /cuts": Row(("?sync=settlement",)),
    "POST /make_cuts": Row(
        form={"first": str(results.DATE), "mode": "publish", "reason": " "}, may=_WORKERS, answer=409
    ),
    "POST /order_backfill": Row(form={"number": "0", "order": "pause", "reason": " "}, may=_WORKERS, answer=409),
    "GET /tolerances": Row(("?sync=settlement",)),
    "POST /ask_tolerance": Row(
        form={"summed": "no column", "amount": "1", "until": "2027-01-01", "why": "w"}, may=_WORKERS, answer=409
    ),
    "POST /approve_tolerance": Row(form={"number": "0"}, may=("approver",), answer=422),
    "POST /approve_declared_tolerance": Row(form={"text": "none"}, may=("approver",), answer=422),
    "POST /end_tolerance": Row(form={"number": "0"}, may=_WORKERS, answer=422),
    "POST /sign_clean": Row(form={"take": "none"}, may=("approver",), answer=422),
    "POST /sign_left_out": Row(form={"take": "none"}, may=("approver",), answer=422),
    "GET /repairs": Row(("?sync=settlement",)),
    "GET /repair": Row(("?sync=settlement&id=r1",)),
    "POST /plan_repair": Row(form={"reason": " "}, may=_WORKERS, answer=409),
    "POST /approve_repair": Row(
        form={"id": "r1", "cause": "outside", "reason": "by hand"}, may=("approver",), answer=409
    ),
    "POST /evidence": Row(form={"business_date": str(results.DATE), "reason": "an audit"}, may=_WORKERS),
    "POST /reveal_break": Row(form={"id": "{break_id}", "reason": "a call"}, may=_WORKERS),
    "POST /reveal_breaks": Row(form={"run": results.RUN, "destination": "warehouse", "reason": "a call"}, may=_WORKERS),
    "POST /reveal_repair": Row(form={"id": "r1", "reason": "a call"}, may=_WORKERS),
    "GET /api/v1/openapi.json": Row(),
    "GET /api/v1/overview": Row(),
    "GET /api/v1/audit/head": Row(),
    "GET /api/v1/syncs": Row(),
    f"GET {_SYNC}": Row(),
    f"GET {_SYNC}/dates": Row(("", "?before=2027-01-01")),
    f"GET {_SYNC}/dates/{{business_date}}": Row(),
    f"GET {_SYNC}/missing": Row(),
    f"GET {_SYNC}/cuts": Row(),
    f"GET {_SYNC}/comparisons": Row(("", "?before=2027-01-01T00:00:00Z")),
    f"GET {_SYNC}/comparison": Row((f"?run={LIVE}",)),
    f"GET {_SYNC}/airflow_run": Row(("?run_id=manual__1",)),
    f"GET {_SYNC}/breaks": Row((f"?{_DAY}",)),
    f"GET {_SYNC}/breaks/{{break_id}}": Row(),
    f"GET {_SYNC}/breaks/{{break_id}}/work": Row(answer=404),
    f"POST {_SYNC}/breaks/{{break_id}}/acts": Row(body={"doing": "assign"}, may=_WORKERS, answer=409),
    f"POST {_SYNC}/breaks/acts": Row(
        body={"run": results.RUN, "destination": "warehouse", "doing": "assign"}, may=_WORKERS, answer=409
    ),
    f"POST {_SYNC}/breaks/reveal": Row(
        body={"run": results.RUN, "destination": "warehouse", "reason": "a call"}, may=_WORKERS
    ),
    f"POST {_SYNC}/breaks/{{break_id}}/reveal": Row(body={"reason": "a call"}, may=_WORKERS),
    f"POST {_SYNC}/breaks/{{break_id}}/files/{{number}}": Row(may=_WORKERS, answer=422),
    f"POST {_SYNC}/repair/reveal": Row(body={"id": "r1", "reason": "a call"}, may=_WORKERS),
    f"POST {_SYNC}/evidence": Row(body={"business_date": str(results.DATE), "reason": "an audit"}, may=_WORKERS),
    f"POST {_SYNC}/streams/{{destination}}/pause": Row(body={"reason": " "}, may=_WORKERS, answer=422),
    f"POST {_SYNC}/streams/{{destination}}/resume": Row(may=_WORKERS, answer=409),
    f"POST {_SYNC}/streams/{{destination}}/restart": Row(may=_WORKERS, answer=409),
    f"POST {_SYNC}/streams/{{destination}}/load": Row(body={"reason": " "}, may=_WORKERS, answer=409),
    f"GET {_SYNC}/tolerances": Row(),
    f"POST {_SYNC}/tolerances": Row(
        body={
            "destination": "warehouse",
            "table": "account",
            "column": "none",
            "amount": "1",
            "until": "2027-01-01",
            "why": "w",
        },
        may=_WORKERS,
        answer=409,
    ),
    f"POST {_SYNC}/tolerances/{{number}}/approve": Row(may=("approver",), answer=422),
    f"POST {_SYNC}/tolerances/{{number}}/end": Row(may=_WORKERS, answer=422),
    f"GET {_SYNC}/signatures": Row(("", f"?{_DAY}")),
    f"POST {_SYNC}/signatures": Row(body=_VERSION | {"verdict_hash": "none"}, may=("approver",), answer=422),
    f"POST {_SYNC}/signatures/clean": Row(body={"takes": []}, may=("approver",), answer=422),
    f"POST {_SYNC}/signatures/left_out": Row(body={"takes": [], "reason": "x"}, may=("approver",), answer=422),
    f"POST {_SYNC}/signatures/reopen": Row(body=_VERSION | {"reason": "late"}, may=_WORKERS, answer=422),
    f"POST {_SYNC}/dates/{{business_date}}/acknowledge": Row(may=_WORKERS, answer=422),
    f"POST {_SYNC}/sources/acknowledge": Row(may=_WORKERS, answer=422),
    f"GET {_SYNC}/dates/{{business_date}}/files": Row(),
    f"GET {_SYNC}/dates/{{business_date}}/late_postings": Row(),
    # No file is sent, and there is no such file.
    f"POST {_SYNC}/breaks/{{break_id}}/files": Row(may=_WORKERS, answer=422),
    f"POST {_SYNC}/dates/{{business_date}}/files": Row(("?destination=d&version=1",), may=_WORKERS, answer=422),
    f"POST {_SYNC}/dates/{{business_date}}/files/{{number}}": Row(may=_WORKERS, answer=422),
    f"GET {_SYNC}/declaration/changes": Row(),
    f"POST {_SYNC}/declaration/changes": Row(
        body={"change": "run_at", "value": "late", "reason": "r"}, may=_WORKERS, answer=409
    ),
    f"POST {_SYNC}/declaration/changes/{{number}}/accept": Row(may=("approver",), answer=422),
    f"POST {_SYNC}/declaration/changes/{{number}}/withdraw": Row(may=_WORKERS, answer=422),
    f"GET {_SYNC}/declaration/tolerances": Row(),
    f"POST {_SYNC}/declaration/tolerances/{{hash}}/approve": Row(may=("approver",), answer=422),
    f"POST {_SYNC}/dates/{{business_date}}/restate": Row(may=_WORKERS, answer=422),
    f"GET {_SYNC}/repairs": Row(),
    f"POST {_SYNC}/repairs": Row(body={"reason": " "}, may=_WORKERS, answer=409),
    f"GET {_SYNC}/repair": Row(("?id=r1",)),
    f"POST {_SYNC}/repair/approve": Row(
        body={"id": "r1", "cause": "outside", "reason": "by hand"}, may=("approver",), answer=409
    ),
}


def routes() -> list[tuple[str, str]]:
    """Method and path of every route. A mount, or a route of another kind, would pass by what is held here."""
    found = []
    for route in app.routes:
        assert isinstance(route, APIRoute), route
        found += [(method, route.path) for method in sorted(route.methods)]
    return found


def broken(*values: str, **fields: Any) -> Any:
    """Breaks of every kind of row, with each of the values wherever a text of data may stand."""
    breaks = tuple(one for value in values for one in _breaks_of(value))
    table = results.table("account", Verdict.BREAK, breaks=breaks, breaks_total=len(breaks))
    return results.reconciliation(table, results.table("ledger_entry"), **fields)


def _breaks_of(value: str) -> tuple[Break, ...]:
    key = f'{{"iban": {_json(value)}}}'
    return (
        Break("account", BreakType.VALUE, key, {"iban": value, "amount": "1"}, {"iban": "x", "amount": "2"}),
        Break("account", BreakType.MISSING, _json(value), {"iban": value}, None),
        Break("account", BreakType.UNEXPECTED, value, None, {"iban": value}),
    )


def _json(text: str) -> str:
    return '"' + "".join(f"\\u{ord(one):04x}" for one in text) + '"'


def filled(made: results.Platform, *values: str, said: str = "because") -> results.Platform:
    """A date that waits for a person, its take before, and a comparison of live tables; all hold the values. `said`: by
    people, in declarations and decisions."""
    second = f"{results.RUN}~2"
    failed = [
        {
            "on": "account",
            "type": "t",
            "why": said,
            "detail": value,
            "rows": 1,
            "keys": [f'{{"iban": {_json(value)}}}'],
        }
        for value in values
    ]
    checks = {EXPECTATIONS: {"verdict": "BREAK", "checked": 9, "failed": failed}}
    asked = Decision.asked(("approver",), destinations=("warehouse",))
    rejected = asked.answered(DecisionState.REJECTED, who="approver", reason=said)
    made.found = [broken(*values), broken(*values, run_id=second), broken(*values, scope=Scope.LIVE, run_id=LIVE)]
    made.runs = {
        results.RUN: results.run(state=RunState.FAILED, result={**checks, DECISION: rejected.to_json()}),
        second: results.run(run_id=second, result={**checks, DECISION: asked.to_json()}),
    }
    made.reports = {results.STREAM: results.report(epoch=3)}
    if not made.acts.entries:
        made.acts.enter(verdict_act(made.found[0], Kind.COMPARED))
    return made


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    return filled(results.use(monkeypatch, results.Platform()), "plain")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, airflow_database: Path) -> Iterator[TestClient]:
    """The page as Airflow mounts it, with Airflow's own authorization; `X-Person` says who has signed in."""
    airflow_app.create_auth_manager()
    monkeypatch.setattr(reports, "approvers_of", lambda _: ("approver",))
    monkeypatch.setattr(parts, "evidence", lambda sync, day: io.BytesIO(b"PK"))

    def person(request: Request) -> Any:
        if "x-person" not in request.headers:
            raise HTTPException(status_code=401, detail="nobody has signed in")
        return PEOPLE[request.headers["x-person"]]

    app.dependency_overrides[access.get_user] = person
    airflow = FastAPI()
    airflow.mount(URL_PREFIX, app)
    yield TestClient(airflow, follow_redirects=False)
    app.dependency_overrides.clear()


def named(platform: results.Platform) -> dict[str, str]:
    identity = break_id("settlement", "warehouse", platform.found[0].tables[0].breaks[0])
    # There is no tolerance 0, and no stream there.
    return {
        "sync": "settlement",
        "business_date": str(results.DATE),
        "break_id": identity,
        "number": "0",
        "destination": "elsewhere",
        "hash": "none",
    }


def form_of(row: Row, platform: results.Platform) -> dict[str, str]:
    return {name: text.format(**named(platform)) for name, text in row.form.items()} | {"sync": "settlement"}


def answers(
    page: TestClient, platform: results.Platform, who: str, *methods: str, **headers: str
) -> Iterator[tuple[str, Response]]:
    """Of every route (of these methods), asked in every way of its row; an approver sees no other pages than an
    operator, and asks in the first way. `who` "": nobody has signed in."""
    for method, path in routes():
        row = ROWS.get(f"{method} {path}", Row())
        ways = row.asked[:1] if who == "approver" else row.asked
        for asked in ways if not methods or method in methods else ():
            address = f"{URL_PREFIX}{path}{asked}".format(**named(platform))
            sent = {**({"X-Person": who, **(BEARER if is_rest(path) else OWN)} if who else {}), **headers}
            yield f"{method} {path}", page.request(method, address, headers=sent, **act_of(method, path, platform, who))


def is_rest(path: str) -> bool:
    return path.startswith("/api/")


def act_of(method: str, path: str, platform: results.Platform, who: str) -> dict[str, Any]:
    """What is sent with an act: a form with the token of the person, or JSON."""
    row = ROWS.get(f"{method} {path}", Row())
    if method != "POST":
        return {}
    if is_rest(path):
        return {"json": row.body}
    return {"data": form_of(row, platform) | ({"token": acting.token_of(PEOPLE[who])} if who else {})}


def test_every_route_has_a_row() -> None:
    there = {f"{method} {path}" for method, path in routes()}
    assert there - ROWS.keys() == set(), "add a row that says who may, and how it is asked"
    assert ROWS.keys() - there == set(), "a row of no route"


def test_a_person_who_has_not_signed_in_is_led_to_the_login_and_a_program_gets_an_error(
    page: TestClient, platform: results.Platform
) -> None:
    for route, answer in answers(page, platform, "", Accept="*/*"):
        assert (answer.status_code, list(answer.json())) == (401, ["detail"]), route
    for route, answer in answers(page, platform, "", Accept="text/html"):
        is_page = route.startswith("GET") and "/api/" not in route
        assert answer.status_code == (307 if is_page else 401), route
        assert not is_page or answer.headers["location"].startswith("/api/v2/auth/login?"), route
    assert [one.kind for one in platform.acts.entries] == [Kind.COMPARED], "nobody has taken anything"


@pytest.mark.parametrize("who", PEOPLE)
def test_each_role_gets_what_its_row_says(page: TestClient, platform: results.Platform, who: str) -> None:
    for route, answer in answers(page, platform, who):
        expected = ROWS[route].answer if who in ROWS[route].may else 403
        assert answer.status_code == expected, (route, answer.status_code, answer.text[:300])
        assert_held_back(route, answer)


def assert_held_back(route: str, answer: Response) -> None:
    """It is kept nowhere, framed nowhere else, and runs nothing."""
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';") and "script" not in policy, route
    assert "frame-ancestors 'self'" in policy and "form-action 'self'" in policy, route
    assert answer.headers["x-content-type-options"] == "nosniff", route
    assert answer.headers["cache-control"] == "no-store", route


def test_an_act_without_its_token_or_from_elsewhere_is_refused(page: TestClient, platform: results.Platform) -> None:
    acts = [path for method, path in routes() if method == "POST" and not is_rest(path)]
    assert acts
    for path in acts:
        row = ROWS[f"POST {path}"]
        right = form_of(row, platform) | {"token": acting.token_of(PEOPLE[row.may[0]])}
        for headers, data in (
            (OWN, right | {"token": ""}),
            (OWN, right | {"token": acting.token_of(PEOPLE["viewer"])}),
            ({"Sec-Fetch-Site": "cross-site"}, right),
            ({"Origin": "https://elsewhere"}, right),
        ):
            answer = page.post(f"{URL_PREFIX}{path}", data=data, headers={"X-Person": row.may[0], **headers})
            assert answer.status_code == 403, (path, headers)
    assert [one.kind for one in platform.acts.entries] == [Kind.COMPARED]


def test_an_act_by_rest_is_refused_by_cookie_even_from_the_page_itself(
    page: TestClient, platform: results.Platform
) -> None:
    acts = [path for method, path in routes() if method == "POST" and is_rest(path)]
    assert acts
    for path in acts:
        row, address = ROWS[f"POST {path}"], f"{URL_PREFIX}{path}".format(**named(platform))
        for headers in (OWN, {"Authorization": "Basic of a browser"}, {"Cookie": "_token=x"}):
            answer = page.post(address, json=row.body, headers={"X-Person": row.may[0], **headers})
            assert (answer.status_code, "POST /auth/token" in answer.text) == (403, True), (path, answer.text)
    assert [one.kind for one in platform.acts.entries] == [Kind.COMPARED]


def test_no_link_of_another_site_enters_an_act_in_the_name_of_who_follows_it(
    page: TestClient, platform: results.Platform
) -> None:
    def entered(**headers: str) -> dict[str, Response]:
        found = {}
        for route, answer in answers(page, platform, "operator", "GET", **headers):
            if len(platform.acts.entries) > 1 or answer.status_code == 403:
                found[route] = answer
            del platform.acts.entries[1:]
        return found

    files = {"GET /breaks.xlsx", "GET /breaks.csv", *(f"GET /export.{kind}" for kind in ("json", "csv", "xlsx", "pdf"))}
    assert entered().keys() == files, "by the page itself"
    for site in ("cross-site", "same-site"):
        refused = entered(**{"Sec-Fetch-Site": site})
        assert refused.keys() == files
        for route, answer in refused.items():
            assert (answer.status_code, "open its page" in answer.text) == (403, True), (route, site)
            assert_held_back(route, answer)
            assert faults_of_page(answer.text) == []
    assert platform.acts.entries[1:] == []
    address = f"{URL_PREFIX}/export.csv{_OF_DAY}"
    for headers, status in (
        ({"Sec-Fetch-Site": "none"}, 200),
        ({}, 200),
        ({"Sec-Fetch-Site": "cross-site", **BEARER}, 200),
        ({"Referer": "https://elsewhere/x"}, 403),
        ({"Referer": "http://testserver/seamline/page"}, 200),
    ):
        assert page.get(address, headers={"X-Person": "operator", **headers}).status_code == status, headers


# ---- hostile values --------------------------------------------------------------------------------------------------

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|' /C calc'!A0",
    "\u202eevil\u2066",
    "a\x00b",
    "{{ 7*7 }}{% raw %}",
    "x" * 10_000,
)


class Tags(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def faults_of_page(text: str) -> list[str]:
    """What acts in a page, leads out of it, or turns what stands around it."""
    tags = Tags(text)
    found = [f"<{name}>" for name in sorted(tags.names & {"script", "img", "iframe", "object", "embed", "base"})]
    found += [name for name, _ in tags.attributes if name.startswith("on") or name in ("style", "srcdoc")]
    where = [value for name, value in tags.attributes if name in ("href", "src", "action", "formaction")]
    found += [one for one in where if re.match(r"\s*(\w+:|//)", one)]
    found += [hex(ord(one)) for one in sorted(set(text) & set("\x00\u202e\u2066"))]
    return found


def faults_of_csv(text: str) -> list[str]:
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    number = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
    return [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n")) and not number.fullmatch(cell)]


def faults_of_workbook(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        sheets = [book.read(name).decode() for name in book.namelist() if name.startswith("xl/worksheets/")]
    return re.findall(r"<f[ >].*?</f>|<hyperlink.*?>", "".join(sheets))


def faults(answer: Response) -> list[str]:
    if answer.is_redirect:
        return []
    kind = answer.headers["content-type"].partition(";")[0]
    match kind:
        case "text/html":
            return faults_of_page(answer.text)
        case "text/csv":
            return faults_of_csv(answer.text)
        case "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":
            return faults_of_workbook(answer.content)
    assert kind in ("application/json", "application/pdf", "application/zip", "text/css"), kind
    return []


def test_hostile_values_are_texts_in_every_answer(page: TestClient, platform: results.Platform) -> None:
    filled(platform, *HOSTILE, said=" ".join(HOSTILE))
    for route, answer in answers(page, platform, "operator"):
        assert answer.status_code in (200, 303, 403, 404, 409, 422), (route, answer.text[:300])
        assert faults(answer) == [], route


def test_a_hostile_address_is_refused_or_is_a_text(page: TestClient, platform: results.Platform) -> None:
    names = ("sync", "run", "destination", "table", "text", "kind", "sort", "dag_id", "run_id", "id", "business_date")
    pages = [path for method, path in routes() if method == "GET" and "{" not in path and "export" not in path]
    planted = "".join(one for one in HOSTILE if "\0" not in one and len(one) < 100)
    for path in pages:
        for name in names:
            asked = {"sync": "settlement", "run": results.RUN, name: planted}
            answer = page.get(f"{URL_PREFIX}{path}", params=asked, headers={"X-Person": "viewer"})
            assert answer.status_code in (200, 403, 404, 422), (path, name)
            if answer.headers["content-type"].startswith("text/html"):
                assert faults_of_page(answer.text) == [], (path, name)
        nul = page.get(f"{URL_PREFIX}{path}?sync=settlement&table=%00", headers={"X-Person": "viewer"})
        assert nul.status_code == 400, path


def test_each_check_of_an_answer_finds_what_is_planted_in_it() -> None:
    for planted in (
        "<p><script>x</script>",
        "<a onclick=x>",
        '<a href="javascript:x">',
        '<form action="//elsewhere">',
        '<p style="x">',
        "<p>\u202e",
    ):
        assert faults_of_page(planted), planted
    assert faults_of_csv("a,=1+1") == ["=1+1"] and faults_of_csv("-1.5,'=1") == []


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_no_answer_holds_the_password_of_a_connection(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform database refuses the session: whatever its client says of that is not passed on whole."""
    monkeypatch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", "postgres://seamline:planted-password@127.0.0.1:1/x")
    away = results.Platform()
    away.found = [broken("plain")]
    statuses = []
    for route, answer in answers(page, away, "viewer", "GET"):
        assert "planted-password" not in answer.text, route
        statuses.append(answer.status_code)
    assert statuses.count(503) > 10
