"""Waits in the triggerer for a run's cutover."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline_airflow import cutover_state, parts


class CutoverTrigger(BaseTrigger):
    """Fires when every destination's ledger has applied the run's high marker, or at once when that cannot happen."""

    def __init__(self, run: str, poll_s: float) -> None:
        super().__init__()
        self.run_id = run
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "seamline_airflow.triggers.cutover.CutoverTrigger", {"run": self.run_id, "poll_s": self.poll_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        payload = await self._awaited()
        # A triggerer that dies here has reported nothing: the next one makes this wait again.
        await asyncio.to_thread(parts.reach, "dag.trigger_event")
        yield TriggerEvent(payload)

    async def _awaited(self) -> dict[str, Any]:
        while True:
            # The sensor has just looked. And an event in the very second of the deferral meets a scheduler that still
            # takes the end of the task's process for a lost task, and fails it (seen with Airflow 3.3.2).
            await asyncio.sleep(self.poll_s)
            try:
                # In a thread: a database that answers slowly must not stall the other triggers.
                state = await asyncio.to_thread(cutover_state.look, self.run_id)
            except (TransientError, ConfigError) as exc:
                # A login that is being rotated is refused for a moment.
                self.log.warning("cutover of %s is not known now: %s", self.run_id, exc)
            except SeamlineError as exc:
                return {"status": "error", "message": f"{type(exc).__name__}: {exc}"}
            else:
                if state.is_reached:
                    return {"status": "reached", "positions": dict(state.positions or {})}
                if state.error:
                    return {"status": "error", "message": state.error}
