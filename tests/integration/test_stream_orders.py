"""What `seamline stream` orders, in a real platform database."""

import socket
from dataclasses import replace

import pytest

from seamline.cli.main import main
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.platform.streams import PlatformStreamDirector
from seamline.ports import StreamReport
from tests.integration.platform_database import STREAM, Server, plan
from tests.integration.test_platform import director as director
from tests.integration.test_platform import leased
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server


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
