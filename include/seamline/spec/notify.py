"""`reconcile.notify` of a sync: who hears of what, by mail or at a URL."""

import re
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, field_validator

from seamline.domain.errors import ConfigError
from seamline.domain.escalation import Step
from seamline.domain.notice import Event
from seamline.spec.document import document_of
from seamline.spec.faults import redacted
from seamline.spec.fields import Declared, Duration

_ADDRESS = re.compile(r"[A-Za-z0-9._%+/=~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,189}[A-Za-z0-9])?")


# A POST to the URL that this connection of Airflow's holds.
CHANNELS = ("webhook", "slack")
_CONNECTION = re.compile(rf"(?:{'|'.join(CHANNELS)}):[A-Za-z0-9_-]{{1,200}}")


def _address(value: str) -> str:
    if not (_ADDRESS.fullmatch(value) or _CONNECTION.fullmatch(value)):
        raise ValueError(
            "an address of mail as ops@bank.example, without a name beside it, or webhook:<connection id> or"
            f" slack:<connection id>, got {redacted(value)}"
        )
    return value


def _webhook(value: str) -> str:
    if not (_CONNECTION.fullmatch(value) and value.startswith("webhook:")):
        raise ValueError(
            "webhook:<connection id>: a ping comes every two minutes, which is nothing for a mailbox or a chat, got"
            f" {redacted(value)}"
        )
    return value


Address = Annotated[str, AfterValidator(_address)]
Webhook = Annotated[str, AfterValidator(_webhook)]


class LateStep(Declared):
    """Who else hears of a verdict that is still not there so long after its hour."""

    after: Duration = Field(description="So long after the hour of the verdict.")
    to: tuple[Address, ...] = Field(
        description="Addresses and connections, each once for a date.", strict=False, min_length=1, max_length=50
    )

    @field_validator("after")
    @classmethod
    def _is_behind_the_hour(cls, value: timedelta) -> timedelta:
        if not timedelta(minutes=1) <= value <= timedelta(days=7):
            raise ValueError("between 1min and 7d; at the hour itself `late` is sent")
        return value


class Notify(Declared):
    """Addresses of mail, and connections (webhook:<id>, slack:<id>), that get counts and links, each event once."""

    breaks: tuple[Address, ...] = Field(
        (), description="When a comparison has found breaks, of a cut or of live tables.", strict=False, max_length=50
    )
    signature: tuple[Address, ...] = Field(
        (),
        description="When a published cut waits for a signature, or a cut for an answer whether it is published.",
        strict=False,
        max_length=50,
    )
    late: tuple[Address, ...] = Field(
        (),
        description="When a verdict is not there by `nightly.verdict_by`, or 6 hours after `run_at` without it; when a"
        " source has not closed its day, a stage of a night is late, or a calendar ends.",
        strict=False,
        max_length=50,
    )
    late_steps: tuple[LateStep, ...] = Field(
        (),
        description="Who hears of a late verdict after a while, until it is there, each step once for a date; whoever"
        " heard that it is late hears that it has come.",
        strict=False,
        max_length=10,
    )
    late_postings: tuple[Address, ...] = Field(
        (),
        description="When rows came late for a signed date, as its stream has applied them or a later night has found.",
        strict=False,
        max_length=50,
    )
    escalated: tuple[Address, ...] = Field(
        (),
        description="When a break of a class of `reconcile.work.severity` with `escalate_to` is late.",
        strict=False,
        max_length=50,
    )
    proven: tuple[Address, ...] = Field(
        (),
        description="When the cut of a business date is published and clean in every destination. A service that"
        " expects this each night raises the alarm where nothing of ours can: a dead man's switch.",
        strict=False,
        max_length=50,
    )
    alarms: tuple[Address, ...] = Field(
        (),
        description="When an alarm about a stream of the sync, its source, capture or log, or the host of its streams"
        " has opened; whoever heard of it hears that it has ended.",
        strict=False,
        max_length=50,
    )
    alive: tuple[Webhook, ...] = Field(
        (),
        description="Every two minutes, as long as Airflow looks at streams and nights and the platform database"
        " answers. A service that expects the ping calls somebody when it does not come.",
        strict=False,
        max_length=50,
    )

    @field_validator("late_steps")
    @classmethod
    def _grows(cls, value: tuple[LateStep, ...]) -> tuple[LateStep, ...]:
        if any(one.after >= later.after for one, later in pairwise(value)):
            raise ValueError("each step is later than the one before")
        return value

    def steps(self) -> tuple[Step, ...]:
        """With `late` as the first, at the hour itself."""
        first = (Step(timedelta(0), self.late),) if self.late else ()
        return (*first, *(Step(one.after, one.to) for one in self.late_steps))


def declared_notify(folder: Path, sync: str) -> Mapping[Event, tuple[str, ...]]:
    """Who gets a mail of which event of a sync, by its file alone; nobody where it says nothing or is not there.

    ConfigError where the file cannot say it.
    """
    notify = _declared(folder, sync)
    return {event: named for event in Event if notify and (named := getattr(notify, event.value))}


def declared_steps(folder: Path, sync: str) -> tuple[Step, ...]:
    """Whose matter a late verdict of a sync becomes, and when, by its file alone; nobody's where it says nothing.

    ConfigError where the file cannot say it.
    """
    notify = _declared(folder, sync)
    return notify.steps() if notify else ()


def shown_steps(folder: Path, sync: str) -> tuple[Step, ...]:
    """The same for what only shows it; nobody's where its file is wrong."""
    try:
        return declared_steps(folder, sync)
    except ConfigError:
        return ()


def _declared(folder: Path, sync: str) -> Notify | None:
    file = folder / "syncs" / f"{sync}.yaml"
    said = document_of(file).value(("reconcile", "notify")) if file.is_file() else None
    if said is None:
        return None
    try:
        return Notify.model_validate(said)
    except ValidationError as error:
        raise ConfigError(
            f"{file} does not say who gets mails of {sync}", hint="`./seamline validate` says what is wrong in it"
        ) from error


def somebody_is_notified(folder: Path) -> bool:
    """Whether any sync's file has `reconcile.notify`, right or wrong."""
    files = (folder / "syncs").glob("*.yaml")
    return any(document_of(file).value(("reconcile", "notify")) is not None for file in files)
