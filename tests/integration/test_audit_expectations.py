"""What Great Expectations said is in the log of acts, as a part of the verdict that a person signs: on a real
PostgreSQL, beside dates that were signed before it was."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from seamline.domain.audit import Kind, canonical_json, sha256_of, verdict_act, verdict_hash
from seamline.domain.errors import Refused
from seamline.domain.runs import EXPECTATIONS, SIGNED_BY
from seamline.domain.sign_off import SignState
from seamline.domain.verdict import Verdict
from seamline.platform import migrate
from seamline.platform.audit import append, entries
from seamline.platform.audit_export import export
from seamline.platform.database import Database
from seamline.platform.signatures import PlatformSignatures, Take
from seamline.platform.store import PlatformStore
from tests.integration.platform_database import Server, database_of_its_own
from tests.integration.test_audit import tamper
from tests.integration.test_audit_export import edit, verified
from tests.integration.test_signatures import faults, found, publish, seen, sign

NEXT, THIRD = date(2026, 3, 2), date(2026, 3, 3)
TAKE = Take("settlement", "warehouse", NEXT, 1)
FAILED = {"on": "account", "type": "t", "why": "no debt", "detail": "d", "rows": 1, "keys": ['{"id": "7"}']}
LEFT: dict[str, Any] = {
    "suite": "settlement__reconciliation", "declared": "", "verdict": "BREAK", "checked": 9, "failed": [FAILED],
}  # fmt: skip
CLEAN = {**LEFT, "verdict": "MATCH", "failed": []}
# The number of its entry.
CHECKED = 8
PLACE = "settlement → warehouse 2026-03-02, run r2"


def of(left: dict[str, Any]) -> dict[str, Any]:
    return {"destinations": {"warehouse": left}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A date that was signed before the upgrade, and one that was checked behind it and waits for a signature."""
    with database_of_its_own("audit_expectations_test") as made:
        migrate.upgrade(made.open, to="v0025")
        with closing(PlatformStore(Database(made.open))) as store:
            publish(store)
            with made.open() as session:
                session.execute('update run set result = result || \'{"expectations": {"verdict": "MATCH"}}\'')
            with closing(PlatformSignatures(Database(made.open))) as signatures:
                sign(signatures, "ann")
            migrate.upgrade(made.open)
            publish(store, "r2", Verdict.BREAK, business_date=NEXT)
            store.put_result("r2", EXPECTATIONS, of(LEFT))
        yield made


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


@pytest.fixture
def signatures(server: Server) -> Iterator[PlatformSignatures]:
    with closing(PlatformSignatures(Database(server.open))) as signatures:
        yield signatures


def put_behind_the_log(server: Server, left: dict[str, Any]) -> None:
    with server.open() as session:
        session.execute(
            "update run set result = jsonb_set(result, array['expectations'], %s) where run_id = 'r2'",
            (Jsonb(of(left)),),
        )


def test_dates_that_were_signed_before_stay_signed_and_verify(server: Server, signatures: PlatformSignatures) -> None:
    assert faults(server) == []
    assert seen(signatures).state is SignState.SIGNED
    assert seen(signatures).verdict_hash == verdict_hash(found()), "the upgrade has entered nothing about it"


def test_what_the_expectations_left_is_a_part_of_the_verdict_and_a_repeat_adds_nothing(
    server: Server, store: PlatformStore, signatures: PlatformSignatures
) -> None:
    store.put_result("r2", EXPECTATIONS, of(LEFT))
    with server.open() as session, session.transaction():
        (entry,) = entries(session, "kind = 'checked'", ())
    document = json.loads(entry.document)
    said = {"suite": "settlement__reconciliation", "verdict": "BREAK", "checked": 9, "failed": 1}
    assert document["expectations"] == {**said, "hash": sha256_of(canonical_json(LEFT))}
    kept = store.reconciliation("r2", "cut")
    assert kept is not None and kept.evidence["expectations"] == document["expectations"]
    assert document["hash"] == verdict_hash(kept) == seen(signatures, TAKE).verdict_hash
    assert (seen(signatures, TAKE).checks, seen(signatures).checks) == ("BREAK", "")
    assert kept.tables == found("r2", Verdict.BREAK).tables
    assert faults(server) == []


@pytest.mark.parametrize(
    ("left", "fault"),
    [
        (CLEAN, "the results of its expectations were changed"),
        ({**LEFT, "failed": [{**FAILED, "keys": ['{"id": "8"}']}]}, "the results of its expectations were changed"),
        ({}, "the results of its expectations are missing"),
    ],
    ids=["the verdict", "a key of a row", "all of it"],
)
def test_results_that_were_changed_behind_the_log_are_named_and_not_signed(
    server: Server, signatures: PlatformSignatures, left: dict[str, Any], fault: str
) -> None:
    put_behind_the_log(server, left)
    try:
        assert faults(server) == [f"{PLACE}: {fault} after entry {CHECKED} (checked)"]
        with pytest.raises(Refused, match=fault):
            sign(signatures, "ann", "known", take=TAKE)
    finally:
        put_behind_the_log(server, LEFT)
    assert faults(server) == []


def test_what_the_verdict_says_of_them_is_held_like_the_rest_of_it(server: Server) -> None:
    change = (
        "update reconciliation set evidence = jsonb_set(evidence, '{expectations,failed}', '%s') where run_id = 'r2'"
    )
    tamper(server, change % 0)
    try:
        assert faults(server) == [f"{PLACE}: what its expectations said was changed after entry {CHECKED} (checked)"]
    finally:
        tamper(server, change % 1)


def test_under_a_signature_other_results_are_refused_until_somebody_re_opens_the_date(
    server: Server, store: PlatformStore, signatures: PlatformSignatures
) -> None:
    publish(store, "r3", business_date=THIRD)
    store.put_result("r3", EXPECTATIONS, of(CLEAN))
    take = replace(TAKE, business_date=THIRD)
    sign(signatures, "ann", take=take)
    store.put_result("r3", EXPECTATIONS, of(CLEAN))
    for other in (of(LEFT), None):
        with pytest.raises(Refused, match="run r3 is signed by ann: re-open it first"):
            store.put_result("r3", EXPECTATIONS, other)
    assert seen(signatures, take).state is SignState.SIGNED
    signatures.reopen(take, who="bob", reason="to be checked again")
    store.put_result("r3", EXPECTATIONS, None)
    store.put_result("r3", EXPECTATIONS, of(LEFT))
    assert seen(signatures, take).state is SignState.REOPENED
    assert faults(server) == []


FOURTH = date(2026, 3, 4)


def test_no_entry_takes_up_a_verdict_that_was_changed_and_one_that_did_is_named(
    server: Server, store: PlatformStore
) -> None:
    publish(store, "r4", Verdict.BREAK, business_date=FOURTH)
    store.put_result("r4", EXPECTATIONS, of(LEFT))
    honest = store.reconciliation("r4", "cut")
    assert honest is not None
    tamper(server, "update reconciliation set verdict = 'MATCH' where run_id = 'r4'")
    changed = store.reconciliation("r4", "cut")
    assert changed is not None
    signed = replace(changed, evidence={**changed.evidence, SIGNED_BY: "ann: known"})
    for act in (
        lambda: store.put_result("r4", EXPECTATIONS, of(CLEAN)),
        lambda: store.save_reconciliation(signed),
        lambda: store.require_as_entered(changed),
    ):
        with pytest.raises(Refused, match="is not the one that the log of acts has"):
            act()
    kept = store.reconciliation("r4", "cut")
    assert (kept, store.run("r4").result[EXPECTATIONS]) == (changed, of(LEFT)), "what is refused leaves nothing"
    with server.open() as session:
        append(session, verdict_act(changed, Kind.CHECKED))
    (named,) = faults(server)
    assert "the verdict was changed between entry" in named
    assert named.endswith("(checked), which compared nothing")
    with server.open() as session:
        append(session, verdict_act(honest, Kind.COMPARED))
    tamper(server, "update reconciliation set verdict = 'BREAK' where run_id = 'r4'")
    # The last one that asks for the faults of this server: an entry is never taken back.
    assert faults(server) == [named]


# ---- the evidence of a date -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence") / "settlement"
    with server.open() as session:
        export(session, sync="settlement", day=NEXT, folder=folder, anchors=())
    return folder


RESULTS = f"expectations-{CHECKED}.json"
OF_WHAT = "the results of the expectations of r2 warehouse cut"
PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a key of a row": (edit(RESULTS, "7", "8"), f"{RESULTS}: {OF_WHAT} are not what entry {CHECKED} says"),
    "all of it": (lambda folder: (folder / RESULTS).unlink(), f"{RESULTS}: {OF_WHAT} are missing"),
    "one too many": (lambda folder: (folder / "expectations-1.json").touch(), "expectations-1.json: no entry names it"),
    "what the verdict says of them": (
        edit(f"verdict-{CHECKED}.json", '"checked":9', '"checked":8'),
        f"verdict-{CHECKED}.json: the verdict of r2 warehouse cut is not what entry {CHECKED} says:"
        " what its expectations said",
    ),
}


def test_the_evidence_of_a_date_has_the_results_and_verifies_them(exported: Path) -> None:
    code, lines = verified(exported)
    assert (code, lines[-1]) == (0, "nothing is wrong")
    assert json.loads((exported / RESULTS).read_text(encoding="utf-8")) == LEFT


@pytest.mark.parametrize("what", PLANTED)
def test_the_verifier_names_results_that_were_changed(exported: Path, tmp_path: Path, what: str) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "evidence"))
    plant, fault = PLANTED[what]
    plant(folder)
    code, lines = verified(folder)
    assert code == 1
    assert f"FAULT  {fault}" in lines
