"""Watches the streams of one sync in the triggerer until their business date ends."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.ledger import StreamId
from seamline.ports import StreamReport
from seamline.sync.stream_state import ENDED, StreamState, Word, not_wanted
from seamline_airflow import parts, stream_health
from seamline_airflow.stream_health import Trouble, in_words, trouble_of

# How often the task's log gets a line per stream.
_LOG_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream of a sync, as it is judged now and as it reported last."""

    state: StreamState
    report: StreamReport | None


def look(sync: str, destinations: Sequence[str]) -> list[Seen]:
    """Each stream of this sync, but those that were taken out of it meanwhile: a wait knows the list of its begin."""
    seen = stream_health.look(sync)
    streams = [one for name in destinations if (one := StreamId(sync, name)) not in seen.undeclared]
    return [Seen(seen.states.get(stream) or not_wanted(stream, None), seen.reports.get(stream)) for stream in streams]


def wrong(streams: Sequence[Seen]) -> list[Trouble]:
    """What makes the date red. A stream that nobody wants is worth no alarm, but the date has none then."""
    found = (trouble_of(one.state) or _not_there(one.state) for one in streams)
    return [trouble for trouble in found if trouble]


def _not_there(state: StreamState) -> Trouble | None:
    return Trouble(ENDED, str(state.stream), state.why) if state.word is Word.STOPPED else None


def log_streams(log: Any, streams: Sequence[Seen]) -> None:
    """State, lag and place of each stream, into the log of a task."""
    for one in streams:
        log.info("%s", in_words(one.state, one.report))


class StreamWatchTrigger(BaseTrigger):
    """Fires when `until` (ISO 8601, with zone) has come, or at once when a stream died or lags too much."""

    def __init__(self, sync: str, destinations: Sequence[str], until: str, poll_s: float) -> None:
        super().__init__()
        self.sync = sync
        self.destinations = list(destinations)
        self.until = until
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "seamline_airflow.triggers.stream_watch.StreamWatchTrigger", {
            "sync": self.sync,
            "destinations": self.destinations,
            "until": self.until,
            "poll_s": self.poll_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        payload = await self._awaited()
        # A triggerer that dies here has reported nothing: the next one makes this wait again.
        await asyncio.to_thread(parts.reach, "dag.trigger_event")
        yield TriggerEvent(payload)

    async def _awaited(self) -> dict[str, str]:
        until = datetime.fromisoformat(self.until)
        log_at = time.monotonic() + _LOG_EVERY_S
        while True:
            # The sensor has just looked; an event in the very second of the deferral would be lost (`CutoverTrigger`).
            left_s = (until - datetime.now(UTC)).total_seconds()
            await asyncio.sleep(min(self.poll_s, max(left_s, 0.0)))
            try:
                streams = await asyncio.to_thread(look, self.sync, self.destinations)
                found = wrong(streams)
                if time.monotonic() >= log_at:
                    log_at = time.monotonic() + _LOG_EVERY_S
                    log_streams(self.log, streams)
            except (TransientError, ConfigError) as exc:
                # A login that is being rotated is refused for a moment.
                self.log.warning("the streams of %s are not known now: %s", self.sync, exc)
                found = []
            if found:
                return {"status": "error", "message": "; ".join(f"{t.subject}: {t.message}" for t in found)}
            if datetime.now(UTC) >= until:
                return {"status": "ended"}
