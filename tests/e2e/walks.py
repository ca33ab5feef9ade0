"""What a reader of the documents does on the stack of the demo, page by page, each block as it stands there."""

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg

from seamline import settings
from seamline.adapters import connections
from tests.documented import block
from tests.e2e import foreign
from tests.e2e.airflow import address, ask_airflow, by_hand, end_of_new_run, password, token_of
from tests.e2e.walk import Walk, like
from tests.waiting import wait_until

HOUR = "docs/tutorial/first-hour.md"
LAKE_PAGE = "docs/how-to/read-a-lake.md"
CHANGED = "docs/how-to/read-what-changed.md"
DATABASE_PAGE = "docs/how-to/read-a-database.md"
LATER, LOADED = "docs/how-to/add-a-destination-later.md", "./seamline exec airflow"
OWN, CAPTURE = "docs/how-to/your-own-database.md", "./seamline connect add brokerage_capture"
RESTORE = "docs/how-to/restore-after-a-disaster.md"
REST = "docs/reference/rest.md"
RECONCILE, ONBOARD = "settlement__reconcile", "settlement__onboard"
PSQL = "./seamline exec --as {} psql {} -v ON_ERROR_STOP=1 -At"


def a_change_arrives(walk: Walk, warehouse: psycopg.Connection) -> None:
    walk.run(HOUR, './seamline exec --as bank_app mariadb -e "UPDATE payment_order SET status')
    order = "SELECT status FROM settlement.payment_order WHERE id = 17"
    wait_until(lambda: warehouse.execute(order).fetchone() == ("rejected",), timeout_s=60, what="the change to arrive")


def compared_by_hand_and_by_curl(walk: Walk) -> None:
    known = by_hand(RECONCILE)
    walk.run(HOUR, "./seamline exec airflow dags trigger settlement__reconcile\n")
    assert end_of_new_run(RECONCILE, known)[1] == "success"
    fill = {"http://127.0.0.1:21080": address(), "…": password("operator")}
    started, exported = documents(walk.run(HOUR, "airflow=", fill=fill))
    assert started["dag_id"] == RECONCILE and {one["sync"] for one in exported} == {"settlement"}
    assert end_of_new_run(RECONCILE, {*known, *by_hand(RECONCILE)} - {started["dag_run_id"]})[1] == "success"


def a_date_is_read_by_rest(walk: Walk, day: date) -> None:
    fill = {"https://airflow.bank": address(), "2026-11-19": str(day), "$TOKEN": token_of("operator")}
    (report,) = documents(walk.run(REST, 'curl -H "Authorization: Bearer $TOKEN" https', fill=fill))
    assert report["business_date"] == str(day), report


def a_break_is_explained_by_rest(walk: Walk, run_id: str) -> None:
    token = token_of("operator")
    found = ask_airflow(
        "GET",
        "/seamline/api/v1/syncs/settlement/breaks",
        params={"run": run_id, "destination": "warehouse", "scope": "live"},
        headers={"Authorization": f"Bearer {token}"},
    ).json()
    fill = {"https://airflow.bank": address(), "0f3a9c1e5b7d2468": found["breaks"][0]["id"], "$TOKEN": token}
    (answer,) = documents(walk.run(REST, 'curl -H "Authorization: Bearer $TOKEN" -H', fill=fill))
    assert "detail" not in answer and "timing" in json.dumps(answer), answer


def evidence_is_verified(walk: Walk, day: date, folder: Path) -> None:
    fill = {"2026-03-01": str(day), "evidence/": f"{folder}/", "[files of anchors that were kept elsewhere]": ""}
    walk.run("docs/reference/audit.md", "./seamline audit export", fill=fill)
    page = (walk.checkout / "docs/reference/audit.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^[\d,]+ entries, .*$", page, re.MULTILINE)
    verified = walk.shell("./seamline audit verify").stdout
    assert any(like(shown).fullmatch(line) for line in verified.splitlines()), (shown, verified)


def a_password_is_rotated(walk: Walk) -> None:
    at = connections.resolve("warehouse")
    url = f"postgres://{at.login}@{at.host}:{at.port}/{at.database}"
    fill = {"postgres://warehouse@dwh.example/dwh": url}
    said = walk.run(
        "docs/how-to/rotate-secrets.md", "./seamline connect add", fill=fill, typed=f"{at.password}\n", within_s=60
    )
    assert "stored as `warehouse`" in said, said


def dates_are_made_again(walk: Walk, first: date, second: date) -> None:
    """Two dates that are kept, the first of them made again, and a comparison of the live tables."""
    fill = {"2026-10-01": str(first), "2026-10-31": str(second), "2026-11-19": str(first)}
    walk.run("docs/how-to/backfill.md", "./seamline backfill settlement 2026", fill=fill, within_s=600)


def a_backfill_is_cancelled(walk: Walk, first: date, second: date) -> None:
    begun = f"./seamline backfill settlement {first} {second} --again --at-once 1 --detach --reason 'it is cancelled'"
    assert walk.shell(begun).returncode == 0
    page, begins = "docs/how-to/backfill.md", "./seamline backfill settlement --pause"
    walk.run(page, begins, lines=slice(0, 3))
    assert "of 2 dates" in walk.run(page, begins, lines=slice(3, None), ends=3)


def three_rows_are_broken(walk: Walk) -> str:
    """By the tutorial. The run that has found them."""
    known = by_hand(RECONCILE)
    walk.run(HOUR, "./seamline exec --as warehouse psql <<")
    run_id, state = end_of_new_run(RECONCILE, known)
    assert state == "failed", "a BREAK is red"
    return run_id


def rows_are_repaired(walk: Walk) -> None:
    """The command line is one person here: the plan of that person is approved by another one, by REST."""
    page, begins, known_as = "docs/how-to/repair.md", "./seamline repair plan", "repair-20261128T231500-3f9c"
    planned = walk.run(page, begins, lines=slice(0, 1))
    (repair,) = set(re.findall(r"\brepair-\d{8}T\d{6}-\w+", planned))
    assert walk.run(page, begins, lines=slice(1, 2), fill={known_as: repair}).count("payment_order") >= 1
    walk.run(page, begins, lines=slice(2, 3), fill={known_as: repair}, ends=3)
    approve(repair)
    walk.run(page, begins, lines=slice(3, 4), fill={known_as: repair})


def approve(repair: str) -> None:
    answer = ask_airflow(
        "POST",
        "/seamline/api/v1/syncs/settlement/repair/approve",
        json={"id": f"settlement/repair/-/{repair}", "cause": "outside", "reason": "a test has broken them"},
        headers={"Authorization": f"Bearer {token_of('approver')}"},
    )
    assert answer.status_code == httpx.codes.OK, answer.text


def a_row_of_the_archive_is_found(walk: Walk) -> None:
    """Its cure is the block of another page, which `a_destination_is_loaded` runs."""
    known, begins = by_hand(RECONCILE), "./seamline exec --as archive"
    walk.run(HOUR, begins, lines=slice(0, 2))
    assert end_of_new_run(RECONCILE, known)[1] == "failed", "a BREAK is red"
    assert block(walk.checkout, LATER, LOADED).strip() in block(walk.checkout, HOUR, begins)


def a_destination_is_loaded(walk: Walk, sync: str, destination: str) -> str:
    """The run that has loaded it."""
    known = by_hand(f"{sync}__onboard")
    walk.run(LATER, LOADED, fill={"settlement": sync, "archive": destination})
    run_id, state = end_of_new_run(f"{sync}__onboard", known)
    assert state == "success"
    return run_id


def tables_are_taken_up(walk: Walk, sync: str) -> str:
    """The run that has let the list of tables hold."""
    known = by_hand(f"{sync}__tables")
    walk.run("docs/how-to/park-a-table.md", "./seamline validate", fill={"settlement": sync})
    run_id, state = end_of_new_run(f"{sync}__tables", known)
    assert state == "success"
    return run_id


def a_lake_joins(walk: Walk, *, within_s: float) -> str:
    fill = {"./seamline demo": "./seamline demo --size small"}
    return walk.run(HOUR, "./seamline demo --with lake", fill=fill, within_s=within_s)


def own_database_is_onboarded(walk: Walk) -> None:
    """Two owners, each of whom runs what `grants` prints for his database. Only the addresses are not the page's: its
    names meet those of the stack."""
    begins = "./seamline connect add brokerage "
    named = (("brokerage", foreign.LOGIN, foreign.DATABASE), ("dwh", foreign.KEEPER, foreign.WAREHOUSE))
    for place, (theirs, login, database) in enumerate(named):
        url = re.findall(r"postgres://[^\s']+", block(walk.checkout, OWN, begins))[place]
        fill = {url: foreign.url(login, database)}
        said = walk.run(OWN, begins, lines=slice(place, place + 1), fill=fill, typed=f"pw-{login}\n")
        assert re.match(rf"{theirs}: PostgreSQL [\d.]+, \w+", said), said
    walk.run(OWN, begins, lines=slice(2, 3), fill={"--tables 'position*,trade' ": ""})
    url = re.findall(r"postgres://[^\s']+", block(walk.checkout, OWN, CAPTURE))[0]
    fill = {url: foreign.url(foreign.LOGIN, foreign.DATABASE)}
    walk.run(OWN, CAPTURE, fill=fill, typed=f"pw-{foreign.LOGIN}\n")
    for place, (_, _, database) in enumerate(named, 3):
        foreign.run(database, walk.run(OWN, begins, lines=slice(place, place + 1)))
    walk.run(OWN, begins, lines=slice(5, 6), within_s=600)


def a_log_is_given_up(walk: Walk) -> None:
    begins = "./seamline capture reset"
    walk.run(RESTORE, begins, lines=slice(0, 1), ends=3)
    walk.run(RESTORE, begins, lines=slice(1, None), within_s=600)
    walk.run(RESTORE, "./seamline status")


def a_lake_is_read(walk: Walk, day: date) -> None:
    listed = walk.run(HOUR, "./seamline exec --as lake", lines=slice(0, 1))
    found = dict(re.findall(r"^ *(\w+) *\| *(\S+metadata\.json)", listed, re.MULTILINE))
    fill = {"<metadata_location>": found["payment_order"]}
    assert int(walk.run(HOUR, "./seamline exec --as lake", lines=slice(1, 2), fill=fill)) > 0
    lake = PSQL.format("lake", "")
    cuts = walk.program(block(walk.checkout, LAKE_PAGE, "SELECT business_date"), run_by=lake)
    assert str(day) in cuts and "MATCH" in cuts
    walk.program(block(walk.checkout, LAKE_PAGE, "CREATE ROLE"), run_by=PSQL.format("postgres_root", "lake"))
    begins = ("uri = ", "from seamline.sinks", "from seamline.reading", "import duckdb", "print(duckdb")
    program = "\n".join(block(walk.checkout, LAKE_PAGE, one) for one in begins)
    ports = settings.load().ports
    program = program.replace("catalogue.example:5432", f"127.0.0.1:{ports.postgres}").replace("2026-11-27", str(day))
    said = walk.program(program, run_by="./seamline exec python -").splitlines()
    assert said[0].startswith(f"cut_{day:%Y_%m_%d}_v"), said


def what_changed_is_read(walk: Walk, day: date) -> None:
    """Between a date and the one before it, of which the demo has no cut of `account`; and between two versions."""
    before, warehouse = str(day - timedelta(days=1)), PSQL.format("warehouse", "")
    of_dates = block(walk.checkout, CHANGED, "SELECT cut_change, id, balance")
    walk.program(of_dates.replace("2026-11-25", before).replace("2026-11-26", str(day)), run_by=warehouse)
    of_versions = block(walk.checkout, CHANGED, "SELECT cut_change, id, amount")
    walk.program(of_versions.replace("2026-11-26", str(day - timedelta(days=2))), run_by=warehouse)
    program = block(walk.checkout, CHANGED, "from seamline.reading").replace("account", "payment_order")
    program = program.replace("2026-11-25", before).replace("2026-11-26", str(day))
    # Both cuts are tags on one live table: how many orders came between them is the writers' business.
    assert "cut_change" in walk.program(program, run_by="./seamline exec python -")


def a_database_is_read(walk: Walk, day: date) -> None:
    program = block(walk.checkout, DATABASE_PAGE, "from seamline.reading").replace("account", "payment_order")
    program = program.replace("2026-11-26", str(day - timedelta(days=1))).replace("2026-11-27", str(day))
    assert f"cut_{day:%Y_%m_%d}_v" in walk.program(program, run_by="./seamline exec python -")


def documents(text: str) -> list[Any]:
    """The JSON documents that one text is made of."""
    found, at = [], 0
    while at < len(text.rstrip()):
        one, end = json.JSONDecoder().raw_decode(text, at)
        found.append(one)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found
