"""`reconcile.notify` of a sync: who hears of what, by mail or at a URL."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from seamline.domain.errors import ConfigError
from seamline.domain.notice import Event
from seamline.spec.document import document_of
from seamline.spec.faults import redacted
from seamline.spec.fields import Declared

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


Address = Annotated[str, AfterValidator(_address)]


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


def declared_notify(folder: Path, sync: str) -> Mapping[Event, tuple[str, ...]]:
    """Who gets a mail of which event of a sync, by its file alone; nobody where it says nothing or is not there.

    ConfigError where the file cannot say it.
    """
    file = folder / "syncs" / f"{sync}.yaml"
    said = document_of(file).value(("reconcile", "notify")) if file.is_file() else None
    if said is None:
        return {}
    try:
        notify = Notify.model_validate(said)
    except ValidationError as error:
        raise ConfigError(
            f"{file} does not say who gets mails of {sync}", hint="`./seamline validate` says what is wrong in it"
        ) from error
    return {event: named for event in Event if (named := getattr(notify, event.value))}


def somebody_is_notified(folder: Path) -> bool:
    """Whether any sync's file has `reconcile.notify`, right or wrong."""
    files = (folder / "syncs").glob("*.yaml")
    return any(document_of(file).value(("reconcile", "notify")) is not None for file in files)
