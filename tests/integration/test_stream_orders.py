"""What `seamline stream` orders, in a real platform database."""

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.cli.main import main
from seamline.domain.declared import Step
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.platform.database import Database
from seamline.platform.followers import PlatformFollowers
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.streams import PlatformStreamDirector
from seamline.ports import StreamReport
from tests.integration.platform_database import STREAM, Server, plan
from tests.integration.test_platform import director as director
from tests.integration.test_platform import leased
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server
from tests.unit.declared import write_declarations


def test_a_person_pauses_resumes_and_restarts_a_stream_by_command(
    server: Server,
    director: PlatformStreamDirector,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("seamline.registry.director", lambda: director)
    assert main(["stream", "pause", "settlement"]) == Refused.exit_code
    assert "Onboarding starts them" in capsys.readouterr().err
    director.want(STREAM, plan_json=plan_to_json(plan()))
    assert main(["stream", "pause", "settlement", "--reason", "the warehouse\nmoves"]) == 0
    [first] = director.wanted("default")
    assert (first.paused, first.pause_reason) == (True, "the warehouse moves")
    assert first.paused_by.endswith(f" on {socket.gethostname()}")
    assert first.paused_at is not None
    director.pause(STREAM, by="bob", reason="it still moves")
    director.pause(STREAM, by="bob")
    kept = replace(first, pause_reason="it still moves")
    assert director.all_wanted() == director.wanted_of("settlement") == (kept,), "who, and since when, is kept"
    assert director.wanted_of("another") == ()
    with pytest.raises(Refused, match="paused"):
        director.hold(STREAM, lease_s=30)
    assert main(["stream", "restart", "settlement", "--reason", "done"]) == ConfigError.exit_code
    assert main(["stream", "resume", "settlement", "warehouse"]) == 0
    [resumed] = director.wanted("default")
    assert (resumed.paused, resumed.paused_by, resumed.paused_at, resumed.pause_reason) == (False, "", None, "")
    holder = leased(server)
    director.give_up(STREAM, want_number=1, error="fenced by epoch 7", holder=holder)
    director.put_report(StreamReport(STREAM, "failed", error="fenced by epoch 7", host=holder))
    assert main(["stream", "restart", "settlement"]) == 0
    [wanted] = director.wanted("default")
    assert (wanted.want_number, wanted.final_want) == (2, 1)
    assert director.latest_report(STREAM) is None
    assert main(["stream", "pause", "settlement", "lake"]) == Refused.exit_code
    assert "streams of settlement: warehouse" in capsys.readouterr().err


def test_a_restart_of_all_streams_wants_none_again_of_a_destination_that_was_taken_out(
    director: PlatformStreamDirector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.registry.director", lambda: director)
    taken_out = StreamId("settlement", "old")
    for stream in (STREAM, taken_out):
        director.want(stream, plan_json=plan_to_json(plan()))
    director.unwant(taken_out)
    assert main(["stream", "restart", "settlement"]) == 0
    assert [each.stream for each in director.wanted_of("settlement")] == [STREAM]
    assert main(["stream", "restart", "settlement", "old"]) == 0
    assert {each.stream for each in director.wanted_of("settlement")} == {STREAM, taken_out}


def test_a_stream_that_is_declared_no_more_ends_and_goes_on_by_the_want_that_it_had(
    server: Server, director: PlatformStreamDirector
) -> None:
    director.want(STREAM, plan_json=plan_to_json(plan()))
    director.pause(STREAM, by="ann", reason="the warehouse moves")
    (before,) = director.wanted_of("settlement")
    director.take(STREAM, Step.END)
    assert director.wanted_of("settlement") == (before,), "no look has missed it yet"
    for _ in range(2):
        director.take(STREAM, Step.NOTE)
    (mark,) = director.marks()
    assert (mark.stream, mark.is_wanted, mark.since is not None, mark.age_s < 60) == (STREAM, True, True, True)
    director.take(STREAM, Step.END)
    assert director.wanted_of("settlement") == ()
    (ended,) = director.marks()
    assert (ended.is_wanted, ended.since) == (False, mark.since)
    director.take(STREAM, Step.GO_ON)
    assert director.wanted_of("settlement") == (before,), "as it was: paused ones stand, failed ones are down"
    (back,) = director.marks()
    assert (back.is_wanted, back.since) == (True, None)


@pytest.mark.parametrize("why", ["cut off", "unwanted", "forgotten"])
def test_a_stream_that_ended_for_another_reason_is_not_wanted_again_when_its_file_is_there(
    server: Server, director: PlatformStreamDirector, why: str
) -> None:
    director.want(STREAM, plan_json=plan_to_json(plan()))
    director.take(STREAM, Step.NOTE)
    match why:
        case "cut off":
            PlatformFollowers(lambda: Database(server.open)).cut_off(STREAM, "too far behind")
        case "unwanted":
            director.unwant(STREAM)
        case "forgotten":
            director.forget(STREAM, by="ann")
    assert director.marks() == ()
    director.take(STREAM, Step.GO_ON)
    assert director.wanted_of("settlement") == ()


def test_only_a_stream_that_is_declared_no_more_is_forgotten_by_command_and_the_log_keeps_nothing_for_it(
    server: Server,
    director: PlatformStreamDirector,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("seamline.registry.director", lambda: director)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path)))
    director.want(STREAM, plan_json=plan_to_json(plan()))
    forget = ["stream", "forget", "settlement", "--reason", "the desk has closed"]
    assert main(forget) == Refused.exit_code
    assert "no stream of settlement that is declared no more and has ended" in capsys.readouterr().err
    for step in (Step.NOTE, Step.END):
        director.take(STREAM, step)
    assert main(forget) == Refused.exit_code
    assert "settlement is declared again" in capsys.readouterr().err
    file = tmp_path / "syncs" / "settlement.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[warehouse]", "[warehous]"), encoding="utf-8")
    assert main(forget) == ConfigError.exit_code
    assert "cannot be read from the file of its sync" in capsys.readouterr().err
    file.unlink()
    (tmp_path / "sources" / "core_bank.yaml").rename(tmp_path / "core_bank.yaml")
    assert main(forget) == ConfigError.exit_code
    assert "the folder may be away" in capsys.readouterr().err
    assert [one.stream for one in director.marks()] == [STREAM], "nothing was done"
    (tmp_path / "core_bank.yaml").rename(tmp_path / "sources" / "core_bank.yaml")
    assert main(forget) == 0
    assert "an onboarding brings it back" in capsys.readouterr().out
    opened = Database(server.open)
    with closing(opened):
        assert (director.marks(), PlatformMaintenance(opened).cut_off()) == ((), {STREAM})
    with closing(server.open()) as session:
        cursor = session.execute("select kind, document::json from seamline.audit_entry order by number desc limit 1")
        assert cursor.fetchone() == ("stream forgotten", {"reason": "the desk has closed"})
