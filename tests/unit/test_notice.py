"""What a mail says: counts, declared names, dates and links, each event with one identity."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from seamline.domain.alarms import AlarmKind
from seamline.domain.errors import ConfigError
from seamline.domain.escalation import Step, owners_in_words, reached
from seamline.domain.notice import (
    LINES_MAX,
    Event,
    alarm_ended,
    alarm_opened,
    alive,
    break_escalated,
    breaks_found,
    is_end_of_alarm,
    late_verdict_of,
    mail_of,
    night_alarm,
    verdict_came,
    verdict_late,
    verdict_still_late,
    waits_for_answer,
    waits_for_signature,
)
from seamline.spec.notify import declared_notify, declared_steps, somebody_is_notified

DAY = date(2026, 11, 19)
MINUTE = timedelta(minutes=1)
DUE = datetime(2026, 11, 20, 7, tzinfo=ZoneInfo("Asia/Shanghai"))
PAGE = "https://airflow.bank.example/seamline/"
EVENTS = (
    breaks_found("settlement", "warehouse", DAY, "settlement/nightly/2026-11-19/x", 1),
    breaks_found("settlement", "warehouse", None, "settlement/reconcile/-/y", 1_234),
    waits_for_signature("settlement", "warehouse", DAY, 2, 0),
    waits_for_answer("settlement", "warehouse", DAY, "settlement/nightly/2026-11-19/x", "2026-11-20T00:00:00Z"),
    verdict_late("settlement", DAY),
    verdict_still_late("settlement", DAY, 120),
    verdict_came("settlement", DAY, DUE, DUE + timedelta(minutes=72)),
    break_escalated("settlement", "0123456789abcdef", "high", "2026-11-20T00:00:00+00:00"),
)


def links(html: str) -> list[str]:
    return re.findall(r'href="([^"]+)"', html)


def test_a_mail_has_the_sync_what_happened_and_a_link_to_its_page() -> None:
    texts = [re.findall(r"<li><a[^>]*>([^<]+)", mail_of([one], recipient="a@b", page=PAGE).html) for one in EVENTS]
    assert texts == [
        ["1 break in the cut of 2026-11-19 in warehouse"],
        ["1,234 breaks in the live tables in warehouse"],
        ["version 2 of 2026-11-19 in warehouse waits for a signature"],
        ["the cut of 2026-11-19 in warehouse waits for an answer"],
        ["the verdict of 2026-11-19 is not there by its hour"],
        ["the verdict of 2026-11-19 is not there 2 h 0 min after its hour"],
        ["the verdict of 2026-11-19 has come, 1 h 12 min after its hour"],
        ["a break of the class high is late"],
    ]
    made = mail_of([EVENTS[0]], recipient="a@b", page=PAGE)
    assert made.subject == "[Seamline] settlement: breaks were found (1)"
    assert links(made.html) == [
        f"{PAGE}page?sync=settlement",
        f"{PAGE}page?sync=settlement&amp;business_date=2026-11-19&amp;run=settlement%2Fnightly%2F2026-11-19%2Fx",
    ]
    assert links(mail_of([EVENTS[-1]], recipient="a@b", page=PAGE).html)[1] == (
        f"{PAGE}break?sync=settlement&amp;id=0123456789abcdef"
    )


def test_a_name_acts_in_no_mail() -> None:
    hostile = '<script>"\r\nBcc: x@y'
    made = mail_of([breaks_found("settlement", hostile, DAY, hostile, 1)], recipient="a@b", page=PAGE)
    assert "<script" not in made.html and "\n" not in made.subject
    assert made.message_id.isprintable()


def test_very_many_events_are_one_mail_with_some_of_them_and_their_number() -> None:
    many = [verdict_late("settlement", date(2026, 1, 1 + number)) for number in range(LINES_MAX + 5)]
    made = mail_of(many, recipient="a@b", page=PAGE)
    assert made.html.count("<li>") == LINES_MAX + 1 and "and 5 more" in made.html
    assert made.subject.endswith(f"({LINES_MAX + 5})")


def test_the_same_notices_have_the_same_identity_and_others_another() -> None:
    made = {mail_of(found, recipient=to, page=PAGE).message_id for found in (EVENTS[:1], EVENTS[:1]) for to in ("a@b",)}
    others = {mail_of([one], recipient=to, page=PAGE).message_id for one in EVENTS for to in ("a@b", "c@d")}
    assert (len(made), len(others)) == (1, 2 * len(EVENTS))


def written(folder: Path, text: str) -> Path:
    (folder / "syncs").mkdir()
    (folder / "syncs" / "settlement.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_file_says_who_gets_a_mail_of_what(tmp_path: Path) -> None:
    text = "sync: settlement\nreconcile:\n  notify:\n    late: [ops@bank.example]\n    breaks: [a@b.example, c@d]\n"
    folder = written(tmp_path, text)
    assert declared_notify(folder, "settlement") == {
        Event.BREAKS: ("a@b.example", "c@d"),
        Event.LATE: ("ops@bank.example",),
    }
    assert somebody_is_notified(folder) and declared_notify(folder, "another") == {}


@pytest.mark.parametrize(
    "said",
    ["[ops]", "['ops@bank.example, x@y']", "['ops@bank.example\\n']", "['Ops <ops@bank.example>']", "ops@bank.example"],
)
def test_an_address_that_is_none_is_refused_and_nobody_is_guessed(tmp_path: Path, said: str) -> None:
    folder = written(tmp_path, f"sync: settlement\nreconcile:\n  notify:\n    late: {said}\n")
    with pytest.raises(ConfigError, match="does not say who gets mails"):
        declared_notify(folder, "settlement")


def test_without_the_key_nobody_is_notified(tmp_path: Path) -> None:
    folder = written(tmp_path, "sync: settlement\nreconcile:\n  on_break: ask\n")
    assert declared_notify(folder, "settlement") == {} and not somebody_is_notified(folder)


STEPS = """\
sync: settlement
reconcile:
  notify:
    late: [ops@bank.example]
    late_steps:
      - {after: 30min, to: [lead@bank.example]}
      - {after: 2h, to: [head@bank.example, "slack:night"]}
"""


def steps(folder: Path, text: str = STEPS) -> tuple[Step, ...]:
    (folder / "syncs").mkdir(exist_ok=True)
    (folder / "syncs/settlement.yaml").write_text(text)
    return declared_steps(folder, "settlement")


def test_a_late_verdict_is_the_matter_of_one_after_another_until_it_comes(tmp_path: Path) -> None:
    found = steps(tmp_path)
    assert [one.minutes for one in found] == [0, 30, 120]
    assert reached(found, DUE, DUE - timedelta(seconds=1)) == []
    at = DUE + timedelta(minutes=30)
    assert [one.to for one in reached(found, DUE, at)] == [("ops@bank.example",), ("lead@bank.example",)]
    assert owners_in_words(found, DUE, at, ZoneInfo("Asia/Shanghai")) == (
        "with ops@bank.example since 2026-11-20 07:00:00 +08:00;"
        " with lead@bank.example since 2026-11-20 07:30:00 +08:00;"
        " with head@bank.example, slack:night from 2026-11-20 09:00:00 +08:00"
    )
    assert steps(tmp_path, "sync: settlement\n") == ()


def test_steps_that_do_not_grow_are_refused(tmp_path: Path) -> None:
    for wrong in (
        STEPS.replace("2h", "30min"),
        STEPS.replace("30min", "0min"),
        STEPS.replace("[lead@bank.example]", "[]"),
    ):
        with pytest.raises(ConfigError):
            steps(tmp_path, wrong)


def test_what_is_known_of_a_late_verdict_is_known_by_its_identity() -> None:
    came = verdict_came("settlement", DAY, DUE, DUE)
    assert came.what == "the verdict of 2026-11-19 has come, by its hour"
    found = [late_verdict_of(one.about) for one in (*EVENTS[4:6], came)]
    assert found == [(DAY, False), (DAY, False), (DAY, True)]
    other = night_alarm("settlement", "stage_late", str(DAY), "2026-11-20T00:00:00+00:00")
    assert other is not None and late_verdict_of(other.about) is None


def test_an_alarm_that_comes_again_is_another_event_and_its_end_is_known_by_its_identity() -> None:
    stream = ("settlement", "stream_failed", "settlement@warehouse", "stream has failed")
    first, again = (alarm_opened(*stream, since) for since in ("2026-11-20T01:00:00", "2026-11-20T02:00:00"))
    assert first and again and first.about != again.about
    assert first.what == "stream has failed: settlement@warehouse"
    over = alarm_ended(first)
    assert (over.event, over.what) == (Event.ALARMS, f"is over: {first.what}")
    assert [is_end_of_alarm(one) for one in (first, over)] == [False, True]


def test_a_record_that_was_altered_is_said_to_whoever_hears_of_alarms() -> None:
    found = alarm_opened("settlement", AlarmKind.RECORD_ALTERED, "settlement", "a record is ALTERED", "2026-11-20")
    assert found and (found.event, found.what) == (Event.ALARMS, "a record is ALTERED: settlement")


@pytest.mark.parametrize("kind", ["verdict_late", "stage_late", "late_input", "cut_not_clean", "calendar_ends"])
def test_an_alarm_about_a_night_is_said_by_its_own_event_alone(kind: str) -> None:
    assert alarm_opened("settlement", kind, f"settlement {DAY}", "any", "2026-11-20T01:00:00") is None


def test_every_ping_is_one_of_its_own() -> None:
    at = datetime(2026, 11, 20, 1, tzinfo=UTC)
    first, second = (mail_of([alive("settlement", one)], recipient="x", page=PAGE) for one in (at, at + MINUTE))
    assert first.message_id != second.message_id
    assert first.subject == "[Seamline] settlement: it is looked at (1)"


@pytest.mark.parametrize("address", ["ops@bank.example", "slack:night"])
def test_a_ping_goes_to_a_webhook_and_to_no_person(tmp_path: Path, address: str) -> None:
    said = "sync: settlement\nreconcile:\n  notify:\n    alive: ['{}']\n"
    assert declared_notify(written(tmp_path, said.format("webhook:watch")), "settlement") == {
        Event.ALIVE: ("webhook:watch",)
    }
    (tmp_path / "syncs/settlement.yaml").write_text(said.format(address))
    with pytest.raises(ConfigError):
        declared_notify(tmp_path, "settlement")
