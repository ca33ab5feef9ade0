"""Python's own housekeeping while a stream runs."""

import gc

import pytest

from seamline.sync.gc_tuning import ManualCollector


def test_the_collector_runs_every_so_often_and_not_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that starts has made no garbage yet, and a collection costs it as much as a small span."""
    collected: list[float] = []
    with ManualCollector(every_s=120) as collector:
        for now in (1_000.0, 1_119.9, 1_120.0, 1_121.0, 1_240.0):
            monkeypatch.setattr(gc, "collect", lambda at=now: collected.append(at))
            collector.collect_if_due(now)
    assert collected == [1_120.0, 1_240.0]
