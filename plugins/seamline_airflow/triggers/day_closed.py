"""Waits in the triggerer until the source has closed its day, or a task is to look."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from seamline_airflow import day_closed, parts
from seamline_airflow.day_closed import Next


class DayClosedTrigger(BaseTrigger):
    """Fires when a task is to look again, with when the day was seen open for the last time."""

    def __init__(self, run: str, poll_s: float) -> None:
        super().__init__()
        self.run_id = run
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "seamline_airflow.triggers.day_closed.DayClosedTrigger", {"run": self.run_id, "poll_s": self.poll_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        open_at = ""
        while True:
            await asyncio.sleep(self.poll_s)
            now = datetime.now(UTC)
            # In a thread: a source that answers slowly must not stall the other triggers.
            following = await asyncio.to_thread(day_closed.look_in_triggerer, self.run_id, now)
            if following is Next.TASK:
                break
            open_at = now.isoformat() if following is Next.STILL_OPEN else open_at
        await asyncio.to_thread(parts.reach, "dag.trigger_event")
        yield TriggerEvent({"open_at": open_at})
