"""Values of sensitive columns: masked in every answer, shown to who says why, and only after that is entered."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from seamline.domain.audit import Kind
from seamline.domain.errors import TransientError
from seamline.domain.masking import MASK
from seamline_airflow.page import acting, exports
from seamline_airflow.question import question_text
from tests.dags import results
from tests.dags.test_page_routes import BEARER, OWN, PEOPLE, ROWS, answers, filled, named
from tests.dags.test_page_routes import page as page
from tests.dags.test_page_routes import platform as platform
from tests.unit.declared import SYNC, write_declarations

SECRET = "DE89370400440532013000"
BREAKS = f"/seamline/breaks?sync=settlement&run={results.RUN}"
SHOWS_ROWS = ("GET /breaks", "GET /break", "GET /api/v1/syncs/{sync}/breaks", "GET /export.json", "GET /breaks.csv")


@pytest.fixture(autouse=True)
def secret(platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sync = SYNC.replace("- account", "- {name: account, sensitive: [iban, id]}")
    folder = write_declarations(tmp_path, {"syncs/settlement.yaml": sync})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    filled(platform, SECRET)


def content(answer: Any) -> str:
    if not answer.headers.get("content-type", "").endswith("sheet"):
        return str(answer.text)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as book:
        return "".join(book.read(name).decode() for name in book.namelist() if name.endswith(".xml"))


@pytest.mark.parametrize("who", ["viewer", "approver"])
def test_no_answer_that_nobody_gave_a_reason_for_holds_a_planted_value(
    page: TestClient, platform: results.Platform, who: str
) -> None:
    seen: dict[str, str] = {}
    for route, answer in answers(page, platform, who, "GET"):
        assert answer.status_code == ROWS[route].answer, route
        assert SECRET not in content(answer), route
        seen[route] = content(answer)
    assert all(MASK in seen[route] for route in SHOWS_ROWS)
    assert {"amount", "••••", "differs"} <= set(re.findall(r"\w+|••••", seen["GET /breaks"])), "what differs is seen"


def test_the_report_behind_workbook_and_pdf_holds_no_planted_value(platform: results.Platform) -> None:
    with_run = exports.exported_of("settlement", results.DATE, "")
    text = repr(exports.report(with_run))
    assert MASK in text and SECRET not in text


def test_a_check_that_looks_for_a_planted_value_finds_it_where_nothing_is_masked(
    page: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "open").mkdir()
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path / "open", {})))
    found = {route for route, answer in answers(page, platform, "approver", "GET") if SECRET in content(answer)}
    assert found >= set(SHOWS_ROWS)


def test_only_one_module_of_the_page_reads_values_as_they_are_stored(checkout: Path) -> None:
    folder = checkout / "plugins" / "seamline_airflow" / "page"
    found = {path.name for path in folder.glob("*.py") if re.search(r"parts[.](platform|breaks)\(", path.read_text())}
    assert found == {"reading.py", "reveal.py"}


def test_the_question_that_airflow_asks_names_rows_by_masked_keys(platform: results.Platform) -> None:
    run = platform.runs[results.RUN]
    text = question_text(run, [platform.found[0]], ["approver"])
    assert SECRET not in text and MASK in text


def test_a_sync_whose_file_is_gone_or_wrong_is_masked_whole(
    page: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    folder = write_declarations(tmp_path / "broken", {"syncs/settlement.yaml": "sync: [\n"})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    text = page.get(BREAKS, headers={"X-Person": "viewer"}).text
    assert SECRET not in text and "amount" in text and ">1<" not in text


def test_masked_keys_can_be_neither_searched_nor_put_in_order(page: TestClient, platform: results.Platform) -> None:
    for path in (BREAKS, f"/seamline/api/v1/syncs/settlement/breaks?run={results.RUN}", BREAKS.replace("?", ".csv?")):
        for asked in ("&text=DE89", "&sort=key", "&text=DE&table=account"):
            assert page.get(f"{path}{asked}", headers={"X-Person": "viewer"}).status_code == 403, path
        assert page.get(f"{path}&text=x&table=ledger_entry", headers={"X-Person": "viewer"}).status_code == 200


# ---- revealed --------------------------------------------------------------------------------------------------------


def reveal(page: TestClient, platform: results.Platform, path: str, who: str, **changes: str) -> Any:
    form = {name: text.format(**named(platform)) for name, text in ROWS[f"POST {path}"].form.items()}
    form |= {"sync": "settlement", "token": acting.token_of(PEOPLE[who])} | changes
    return page.post(f"/seamline{path}", data=form, headers={"X-Person": who, **OWN})


def test_a_value_is_shown_to_who_works_and_says_why_and_that_is_entered_first(
    page: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/reveal_break", "/reveal_breaks", "/reveal_repair"):
        assert reveal(page, platform, path, "viewer").status_code == 403
        for reason in ("", "  \n "):
            assert reveal(page, platform, path, "operator", reason=reason).status_code == 422
    assert [one.kind for one in platform.acts.entries] == [Kind.COMPARED]

    one = reveal(page, platform, "/reveal_break", "operator", reason="a call of\nthe bank")
    assert SECRET in one.text and "That is entered in the log of acts" in one.text
    some = reveal(page, platform, "/reveal_breaks", "approver", table="account")
    assert some.text.count(SECRET) >= 3
    first, second = platform.acts.entries[1:]
    assert (first.kind, first.who, first.origin, first.subject.sync) == ("revealed", "operator", "page", "settlement")
    assert json.loads(first.document) == {"break": named(platform)["break_id"], "reason": "a call of the bank"}
    assert (second.who, second.subject.run_id, second.subject.destination) == ("approver", results.RUN, "warehouse")
    assert json.loads(second.document)["filter"] == {"table": "account", "order": "found"}
    assert SECRET not in f"{first.document}{second.document}"

    def refuse(_: object) -> None:
        raise TransientError("the platform database does not answer")

    monkeypatch.setattr(platform.acts, "enter", refuse)
    answer = reveal(page, platform, "/reveal_break", "operator")
    assert (answer.status_code, SECRET in answer.text) == (503, False)


def test_the_rows_of_a_repair_are_shown_to_who_says_why_and_masked_elsewhere(
    page: TestClient, platform: results.Platform
) -> None:
    planted = "&lt;script&gt;alert(1)&lt;/script&gt;"
    for who, offered in (("viewer", False), ("operator", True)):
        text = page.get("/seamline/repair?sync=settlement&id=r1", headers={"X-Person": who}).text
        assert (planted in text, MASK in text, 'action="reveal_repair"' in text) == (False, True, offered)
    rows = page.get("/seamline/api/v1/syncs/settlement/repair?id=r1", headers={"X-Person": "approver"}).json()["rows"]
    assert rows[0]["source"]["iban"] == MASK
    text = reveal(page, platform, "/reveal_repair", "operator", reason="a call").text
    assert planted in text and "That is entered in the log of acts" in text and 'action="reveal_repair"' not in text
    entry = platform.acts.entries[-1]
    assert (entry.kind, entry.who, entry.subject.run_id, entry.subject.scope) == ("revealed", "operator", "r1", "live")
    assert set(json.loads(entry.document)) == {"repair", "reason"}


def test_the_page_offers_the_form_to_who_may_and_none_where_nothing_is_masked(
    page: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for who, is_offered in (("viewer", False), ("operator", True)):
        text = page.get(BREAKS, headers={"X-Person": who}).text
        assert "Values of sensitive columns are masked." in text
        assert ('action="reveal_breaks"' in text) is is_offered
    (tmp_path / "open").mkdir()
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path / "open", {})))
    text = page.get(BREAKS, headers={"X-Person": "operator"}).text
    assert "reveal" not in text and "masked" not in text


def test_the_evidence_of_a_date_holds_masked_values_and_so_needs_a_reason(
    page: TestClient, platform: results.Platform
) -> None:
    assert reveal(page, platform, "/evidence", "operator", reason="").status_code == 422
    assert reveal(page, platform, "/evidence", "operator", reason="an audit").status_code == 200
    revealed, taken = platform.acts.entries[1:]
    assert (revealed.kind, taken.kind) == (Kind.REVEALED, Kind.EXPORTED)
    assert json.loads(revealed.document) == {"evidence": str(results.DATE), "reason": "an audit"}


# ---- by REST ---------------------------------------------------------------------------------------------------------


def by_rest(page: TestClient, platform: results.Platform, path: str, who: str, **changes: str) -> Any:
    route = f"/api/v1/syncs/{{sync}}{path}"
    address = f"/seamline{route}".format(**named(platform))
    return page.post(address, json=ROWS[f"POST {route}"].body | changes, headers={"X-Person": who, **BEARER})


def test_values_are_shown_by_rest_to_who_says_why_and_that_is_entered_first(
    page: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ("/breaks/{break_id}/reveal", "/breaks/reveal", "/repair/reveal", "/evidence")
    for path in paths:
        assert by_rest(page, platform, path, "viewer").status_code == 403, path
        assert by_rest(page, platform, path, "operator", reason=" \n").status_code == 422, path
    assert [one.kind for one in platform.acts.entries] == [Kind.COMPARED]
    one, some, repair, evidence = (by_rest(page, platform, path, "operator", reason="a\ncall") for path in paths)
    assert one.json()["sightings"][0]["found"]["source"]["iban"] == SECRET
    assert some.json()["breaks"][0]["destination"] == {"iban": "x", "amount": "2"}
    assert repair.json()["rows"][0]["source"]["iban"] == "<script>alert(1)</script>"
    assert (evidence.content, evidence.headers["content-type"]) == (b"PK", "application/zip")
    entered = platform.acts.entries[1:]
    assert [one.kind for one in entered] == [*[Kind.REVEALED] * 4, Kind.EXPORTED]
    assert {(one.who, one.origin) for one in entered} == {("operator", "REST")}
    assert {json.loads(one.document)["reason"] for one in entered[:4]} == {"a call"}
    assert json.loads(entered[-1].document)["file"] == f"evidence-settlement-{results.DATE}.zip"

    def refuse(_: object) -> None:
        raise TransientError("the platform database does not answer")

    monkeypatch.setattr(platform.acts, "enter", refuse)
    for path in paths:
        answer = by_rest(page, platform, path, "operator")
        assert (answer.status_code, SECRET in answer.text) == (503, False), path


def test_breaks_are_revealed_by_rest_in_pages(page: TestClient, platform: results.Platform) -> None:
    seen, after = [], ""
    while after is not None:
        answer = by_rest(page, platform, "/breaks/reveal", "approver", after=after, limit=2).json()  # type: ignore[arg-type]
        seen += [one["id"] for one in answer["breaks"]]
        after = answer["next_after"]
    assert len(seen) == len(set(seen)) == 3
    assert json.loads(platform.acts.entries[-1].document)["after"] == "0.1"
    asked = by_rest(page, platform, "/breaks/reveal", "approver", text="DE89")
    assert asked.status_code == 403, "masked keys are not searched"
