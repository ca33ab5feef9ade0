"""Watches the streams of one sync in the triggerer until their business date ends."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.ports import StreamReport
from seamline_airflow import parts
from seamline_airflow.stream_health import Trouble, in_words, stream_trouble

# How often the task's log gets a line per stream.
_TELLS_EVERY_S = 60.0


Reports = Mapping[StreamId, StreamReport | None]


def look(sync: str, destinations: Sequence[str]) -> Reports:
    """What each stream of this sync has reported last."""
    with parts.director() as director:
        reports = director.latest_reports()
    return {stream: reports.get(stream) for stream in (StreamId(sync, destination) for destination in destinations)}


def wrong(reports: Reports, *, lag_max_s: float) -> list[Trouble]:
    found = (stream_trouble(stream, report, lag_max_s=lag_max_s) for stream, report in reports.items())
    return [trouble for trouble in found if trouble]


def tell(log: Any, reports: Reports) -> None:
    """State, lag and place of each stream, into the log of a task."""
    for stream, report in reports.items():
        log.info("%s", in_words(report) if report else f"{stream}: never reported")


class StreamWatchTrigger(BaseTrigger):
    """Fires when `until` (ISO 8601, with zone) has come, or at once when a stream died or lags too much."""

    def __init__(self, sync: str, destinations: Sequence[str], lag_max_s: float, until: str, poll_s: float) -> None:
        super().__init__()
        self.sync = sync
        self.destinations = list(destinations)
        self.lag_max_s = lag_max_s
        self.until = until
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "seamline_airflow.triggers.stream_watch.StreamWatchTrigger", {
            "sync": self.sync,
            "destinations": self.destinations,
            "lag_max_s": self.lag_max_s,
            "until": self.until,
            "poll_s": self.poll_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        payload = await self._awaited()
        # A triggerer that dies here has told nobody: the next one makes this wait anew.
        await asyncio.to_thread(parts.reach, "dag.trigger_event")
        yield TriggerEvent(payload)

    async def _awaited(self) -> dict[str, str]:
        until = datetime.fromisoformat(self.until)
        tells_at = time.monotonic() + _TELLS_EVERY_S
        while True:
            # The sensor has just looked; an event in the very second of the deferral would be lost (`CutoverTrigger`).
            left_s = (until - datetime.now(UTC)).total_seconds()
            await asyncio.sleep(min(self.poll_s, max(left_s, 0.0)))
            try:
                reports = await asyncio.to_thread(look, self.sync, self.destinations)
                found = wrong(reports, lag_max_s=self.lag_max_s)
                if time.monotonic() >= tells_at:
                    tells_at = time.monotonic() + _TELLS_EVERY_S
                    tell(self.log, reports)
            except TransientError as exc:
                self.log.warning("the streams of %s are not known now: %s", self.sync, exc)
                found = []
            if found:
                return {"status": "error", "message": "; ".join(f"{t.subject}: {t.message}" for t in found)}
            if datetime.now(UTC) >= until:
                return {"status": "ended"}
