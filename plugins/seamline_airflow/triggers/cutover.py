"""Waits in the triggerer for a run's cutover."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline_airflow import cutover_state, parts

# So long the streams that are through wait for one whose destination does not answer, or takes nothing.
_AWAY_S = 60.0
# A worker that tries in vain looks for a moment as if it moved; one that does so for this long has come back.
_MOVES_S = 30.0


class CutoverTrigger(BaseTrigger):
    """Fires when the ledger of every destination that answers and takes rows has applied the run's high marker, or at
    once when that cannot happen in any."""

    def __init__(self, run: str, poll_s: float) -> None:
        super().__init__()
        self.run_id = run
        self.poll_s = poll_s
        self._away_since_s: dict[str, float] = {}
        self._moves_since_s: dict[str, float] = {}

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
                if (event := self._event(state)) is not None:
                    return event

    def _event(self, state: cutover_state.Cutover) -> dict[str, Any] | None:
        """None while one may yet come."""
        if state.is_missed:
            return {"status": "error", "message": state.error}
        now_s = time.monotonic()
        self._note(state, now_s)
        late = {**dict.fromkeys(state.waiting, "tries in vain"), **state.away}
        if not state.positions or any(now_s - self._away_since_s.get(one, math.inf) < _AWAY_S for one in late):
            return None
        message = "; ".join([*filter(None, [state.error]), *(f"{one} {why}" for one, why in late.items())])
        return {"status": "reached", "positions": dict(state.positions), "message": message}

    def _note(self, state: cutover_state.Cutover, now_s: float) -> None:
        """Since when each is away."""
        for one in state.away:
            self._away_since_s.setdefault(one, now_s)
            self._moves_since_s.pop(one, None)
        for one in state.waiting:
            if now_s - self._moves_since_s.setdefault(one, now_s) >= _MOVES_S:
                self._away_since_s.pop(one, None)
