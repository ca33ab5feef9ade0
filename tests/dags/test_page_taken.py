"""Whatever is taken away from the page is an entry of the log of acts, and holds what the page shows."""

import csv
import hashlib
import io
import json
import zipfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from fastapi.testclient import TestClient

from seamline.adapters.signing import signer_of
from seamline.cli.main import main
from seamline.domain import audit
from seamline.domain.audit import Kind, Subject
from seamline.domain.errors import ConfigError, Refused, TransientError
from seamline.domain.runs import Scope
from seamline.domain.verdict import Break, BreakType
from seamline.report import spreadsheet
from seamline_airflow import parts
from seamline_airflow.page import acting, break_pages
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in
from tests.dags.test_page_breaks import OF_RUN, broken, value
from tests.dags.test_page_exports import texts_of

OF_BREAKS = Subject("settlement", "warehouse", results.DATE, results.RUN, "cut")
OF_DAY = {"sync": "settlement", "business_date": str(results.DATE)}


def entries(platform: results.Platform) -> list[dict[str, Any]]:
    return [json.loads(one.content) for one in platform.acts.entries]


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("path", "asked", "about", "rows"),
    [
        ("export.json", OF_DAY, Subject("settlement", "", results.DATE), 2),
        ("export.csv", OF_DAY, Subject("settlement", "", results.DATE), 2),
        ("export.xlsx", {**OF_DAY, "run": results.RUN}, Subject("settlement", "", results.DATE, results.RUN), 2),
        ("export.pdf", OF_DAY, Subject("settlement", "", results.DATE), 2),
        ("export.csv", {"sync": "settlement"}, Subject("settlement"), 2),
        ("breaks.xlsx", OF_RUN, OF_BREAKS, 2),
        (
            "breaks.csv",
            {**OF_RUN, "text": "b"},
            Subject("settlement", "warehouse", results.DATE, results.RUN, "cut"),
            1,
        ),
    ],
)
def test_each_file_is_an_entry_of_who_took_what_with_the_hash_of_its_bytes(
    signed_in: TestClient,
    platform: results.Platform,
    path: str,
    asked: dict[str, str],
    about: Subject,
    rows: int,
) -> None:
    platform.found = [broken(value("a"), value("b"))]
    answer = signed_in.get(f"/{path}", params=asked)
    assert answer.status_code == 200
    (entry,) = platform.acts.entries
    assert (entry.kind, entry.who, entry.origin, entry.subject) == (Kind.EXPORTED, "viewer <b>", "page", about)
    document = json.loads(entry.document)
    assert document["sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert (document["bytes"], document["rows"]) == (len(answer.content), rows)
    assert document["format"] == path.rpartition(".")[2]
    assert f'filename="{document["file"]}"' in answer.headers["content-disposition"]
    chosen = {"order": "found"} if path.startswith("breaks") else {}
    assert document["filter"] == chosen | ({"in the key": "b"} if "text" in asked else {})


def test_a_file_that_cannot_be_entered_is_not_handed_out(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.found = [broken(value("planted-key"))]

    def refuse(_: object) -> None:
        raise TransientError("the platform database does not answer")

    monkeypatch.setattr(platform.acts, "enter", refuse)
    for path, asked in (("export.csv", OF_DAY), ("breaks.csv", OF_RUN)):
        answer = signed_in.get(f"/{path}", params=asked)
        assert answer.status_code == 503
        assert "planted-key" not in answer.text


def test_a_file_of_breaks_has_exactly_the_rows_of_the_filter_from_every_page(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(break_pages, "BREAKS_PER_PAGE", 2)
    several = [value(f"key-{number}") for number in range(5)]
    platform.found = [broken(*several, value("key-z", "payment"), value("other", kind=BreakType.DUPLICATE))]
    asked = {**OF_RUN, "table": "account", "text": "key-", "sort": "key", "after": "0.3"}
    first, *found = lines(signed_in.get("/breaks.csv", params=asked).text)
    assert [one["key"] for one in found] == [f"key-{number}" for number in range(5)]
    assert (first["row_kind"], first["note"]) == (
        "selection",
        "all 5 breaks of the filter; filter: table: account; in the key: key-; order: key",
    )
    (one, *_) = found
    assert (one["source_value"], one["destination_value"], one["difference"]) == ("1", "2", "1")
    assert (one["since"], one["business_date"], one["run"]) == (str(results.DATE), str(results.DATE), results.RUN)
    workbook = texts_of(signed_in.get("/breaks.xlsx", params=asked).content)
    assert "key-4" in workbook and "key-z" not in workbook and "all 5 breaks of the filter" in workbook


def test_a_file_of_more_breaks_than_it_may_hold_says_so(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(break_pages, "BREAKS_IN_A_FILE", 3)
    platform.found = [broken(*(value(f"key-{number}") for number in range(4)))]
    first, *found = lines(signed_in.get("/breaks.csv", params=OF_RUN).text)
    assert len(found) == 3 and first["note"].startswith("only the first 3 breaks of the filter are in this file")
    assert "only the first 3 breaks" in texts_of(signed_in.get("/breaks.xlsx", params=OF_RUN).content)
    assert [one["document"]["rows"] for one in entries(platform)] == [3, 3]


def test_a_file_of_breaks_of_the_live_tables_is_about_no_business_date(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [broken(value("a"), scope=Scope.LIVE)]
    answer = signed_in.get("/breaks.csv", params={**OF_RUN, "scope": "live"})
    first, one = lines(answer.text)
    assert (first["business_date"], one["scope"], one["since"][:10]) == ("", "live", "2026-11-20")
    assert "breaks-settlement-live.csv" in answer.headers["content-disposition"]
    (entry,) = platform.acts.entries
    assert (entry.subject.business_date, entry.subject.scope) == (None, "live")


def test_breaks_of_what_was_not_compared_and_of_a_sync_that_is_not_his_are_no_file(
    signed_in: TestClient, platform: results.Platform
) -> None:
    for path in ("/breaks.csv", "/breaks.xlsx"):
        assert signed_in.get(path, params={**OF_RUN, "run": "x"}).status_code == 404
        assert signed_in.get(path, params={**OF_RUN, "sync": "payroll"}).status_code == 403
    assert not platform.acts.entries


@pytest.mark.parametrize("hostile", [HOSTILE, "=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "\t=1", "-2+3"])
def test_hostile_values_are_no_formula_in_a_file_of_breaks(
    signed_in: TestClient, platform: results.Platform, hostile: str
) -> None:
    platform.found = [broken(Break("account", BreakType.VALUE, hostile, {"owner": hostile}, {"owner": "x"}))]
    answer = signed_in.get("/breaks.csv", params=OF_RUN)
    (row,) = [one for one in lines(answer.text) if one["row_kind"] == "break"]
    cell = hostile if hostile == HOSTILE else f"'{hostile}"
    assert (row["key"], row["source_value"]) == (cell, cell)
    workbook = signed_in.get("/breaks.xlsx", params=OF_RUN).content
    with zipfile.ZipFile(io.BytesIO(workbook)) as book:
        sheets = [name for name in book.namelist() if name.startswith("xl/worksheets/sheet")]
        assert not any("<f>" in book.read(name).decode() for name in sheets)


def test_the_json_carries_the_entry_of_each_verdict_and_the_head_of_the_log(
    signed_in: TestClient, platform: results.Platform
) -> None:
    found = broken(value("a"))
    platform.found = [found]
    platform.acts.enter(audit.verdict_act(replace(found, position=None), Kind.COMPARED))
    platform.acts.enter(audit.verdict_act(found, Kind.SIGNATURE_KEPT))
    signed_in.get("/export.csv", params=OF_DAY)
    (one,) = signed_in.get("/export.json", params=OF_DAY).json()
    log = one["log"]
    assert log["verdict_hash"] == audit.verdict_hash(found) == log["content"]["document"]["hash"]
    # As verify.py makes them again.
    hashed = audit.sha256_of(audit.canonical_json(log["content"]))
    assert log["hash"] == audit.link_hash(content_hash=hashed, number=log["number"], previous=log["previous"])
    assert (log["number"], log["head"]["number"]) == (2, 3)
    assert log["head"]["hash"] == platform.acts.entries[2].hash


def test_verdicts_in_the_json_are_signed_by_the_key_of_the_house_and_a_changed_one_is_named(
    signed_in: TestClient,
    platform: results.Platform,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform.found = [broken(value("a"))]
    key, public, file = tmp_path / "key.pem", tmp_path / "public.pem", tmp_path / "export.json"
    private = Ed25519PrivateKey.generate()
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    def checked() -> tuple[int, str]:
        ended = main(["audit", "signed", str(file), "--key", str(public)])
        return ended, capsys.readouterr().out

    taken = signed_in.get("/export.json", params=OF_DAY)
    assert taken.json()[0]["signature"] is None
    file.write_bytes(taken.content)
    assert checked()[0] == 1
    monkeypatch.setenv("SEAMLINE_SIGNING_KEY", str(key))
    file.write_bytes(signed_in.get("/export.json", params=OF_DAY).content)
    assert checked() == (0, "1 verdicts, 1 signed by this key as they are\n")
    changed = json.loads(file.read_text("utf-8"))
    changed[0]["verdict"] = "MATCH"
    file.write_text(json.dumps(changed), encoding="utf-8")
    ended, said = checked()
    assert ended == 1 and "it was changed after it was signed" in said and "settlement → warehouse" in said
    other = Ed25519PrivateKey.generate().public_key()
    public.write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert "signed by another key" in checked()[1]
    key.write_text("nothing", encoding="utf-8")
    with pytest.raises(ConfigError, match="no private key"):
        signer_of(key)


def test_the_json_of_a_verdict_that_no_entry_names_says_so(signed_in: TestClient, platform: results.Platform) -> None:
    (one,) = signed_in.get("/export.json", params=OF_DAY).json()
    assert one["log"] is None


def test_the_evidence_of_a_date_is_for_those_who_work_and_is_an_entry(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, date]] = []

    opened: list[io.BytesIO] = []

    def evidence(sync: str, day: date) -> io.BytesIO:
        asked.append((sync, day))
        if day != results.DATE:
            raise Refused(f"no act is about {day} of sync {sync}")
        opened.append(io.BytesIO(b"PK" * 200_000))
        return opened[-1]

    monkeypatch.setattr(parts, "evidence", evidence)
    platform.found = [broken(value("a"), value("b"))]
    user = signed_in.app.dependency_overrides  # type: ignore[attr-defined]
    (viewer,) = {made() for made in user.values()}
    form = {**OF_DAY, "token": acting.token_of(viewer)}
    own = {"Sec-Fetch-Site": "same-origin"}
    assert signed_in.post("/evidence", data=form, headers=own).status_code == 403
    assert 'action="evidence"' not in signed_in.get("/page", params=OF_DAY).text
    assert not asked and not platform.acts.entries
    monkeypatch.setattr(acting, "is_trusted", lambda _user, _sync: True)
    for wrong in ({"token": ""}, {"sync": "payroll"}):
        assert signed_in.post("/evidence", data={**form, **wrong}, headers=own).status_code == 403, wrong
    assert signed_in.post("/evidence", data={**form, "business_date": "2026-01-01"}, headers=own).status_code == 404
    assert not platform.acts.entries
    assert 'action="evidence"' in signed_in.get("/page", params=OF_DAY).text
    answer = signed_in.post("/evidence", data=form, headers=own)
    assert (answer.content, answer.headers["content-type"]) == (b"PK" * 200_000, "application/zip")
    assert answer.headers["content-length"] == "400000" and opened[0].closed
    (entry,) = entries(platform)
    assert (entry["kind"], entry["who"], entry["document"]["rows"]) == ("exported", "viewer <b>", 2)
    assert entry["document"]["file"] == f"evidence-settlement-{results.DATE}.zip"
    assert entry["document"]["sha256"] == hashlib.sha256(answer.content).hexdigest()


def test_a_sheet_takes_a_whole_file_of_breaks() -> None:
    """A break of a value has a line for each column that differs, and a table has few."""
    assert break_pages.BREAKS_IN_A_FILE * 50 <= spreadsheet._ROWS
