"""`./seamline cuts <sync>`: its lines for people, column by column."""

import re
from argparse import Namespace
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from seamline.cli import cuts
from seamline.domain.cut_keep import PublishedCut
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from tests.unit.reported import IN_FORCE, MOMENT, TODAY


def test_the_lines_of_a_sync_s_cuts_say_of_each_version_its_state_and_until_when_it_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = replace(IN_FORCE, verdict=Verdict.BREAK, partial=True, saved_at=MOMENT)
    second = replace(IN_FORCE, version=2, saved_at=MOMENT + timedelta(days=1))
    signed = SimpleNamespace(destination="warehouse", business_date=TODAY, version=2)
    signed.signature = SimpleNamespace(who="anna")
    store = SimpleNamespace(
        close=lambda: None,
        latest_run=lambda *_: SimpleNamespace(plan=SimpleNamespace(nightly=NightlyPlan())),
        published_cuts=lambda _: (PublishedCut(second, "log", 1_234_567), PublishedCut(first, "", None)),
    )
    kept = SimpleNamespace(close=lambda: None, kept=lambda *_, **__: [signed])
    monkeypatch.setattr("seamline.registry.platform", lambda: store)
    monkeypatch.setattr("seamline.registry.signatures", lambda: kept)
    args = Namespace(sync="settlement", missing=False)
    assert cuts.run(args) == 0
    lines = capsys.readouterr().out.splitlines()
    day, at, gone = (
        str(TODAY),
        str(IN_FORCE.position),
        MOMENT.date() + timedelta(days=1 + NightlyPlan().keep.versions_days),
    )
    by = "in force", "MATCH", "log", "1,234,567", at, "always: the newest proven one", "anna"
    until = f"until {gone}: a later version is in force"
    assert [re.split(" {2,}", line) for line in lines] == [
        ["date", "destination", "version", "state", "verdict", "mode", "rows", "position", "kept", "signed by"],
        [day, "warehouse", "2", *by],
        [day, "warehouse", "1", "superseded by 2", "BREAK, partial", "-", "-", at, until, "-"],
    ]
    # Each column begins at one place in every line.
    assert len({line.index(cell) for line, cell in zip(lines, ("verdict", "MATCH", "BREAK"), strict=True)}) == 1
    newest, older = args.document["cuts"]
    assert (newest["signed by"], newest["version"], newest["rows"]) == ("anna", 2, 1_234_567), "they were texts"
    assert (newest["date"], older["rows"], older["mode"], older["signed by"]) == (day, None, None, None)
