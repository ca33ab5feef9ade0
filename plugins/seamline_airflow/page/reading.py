"""What the page reads of the platform database, with the values of sensitive columns masked.

Every page, file and answer of REST reads by these: no writer of one can forget it. Unmasked values are read by
`reveal.py` alone, after the log of acts has who asked for them and why.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from seamline import settings
from seamline.domain.errors import ConfigError, InvariantViolated, SeamlineError, TerminalError
from seamline.domain.masking import Hidden, masked
from seamline.domain.runs import RunKind
from seamline.spec.sensitive import hidden_columns
from seamline_airflow import parts

# What a store raises that has found a row which no version of ours writes.
_NOT_READABLE = (InvariantViolated, ValueError, LookupError, TypeError, AttributeError)
# The same by `_Masked`, and of a plan.
UNREADABLE = (TerminalError, ConfigError, *_NOT_READABLE)
_CURE = "`./seamline audit verify` says whether somebody has changed it; else it was written by another version"


@contextmanager
def platform(sync: str = "") -> Iterator[Any]:
    """The PlatformStore. `sync`: what answers are about that do not say so themselves."""
    with parts.platform() as store:
        yield _Masked(store, sync)


@contextmanager
def breaks(sync: str) -> Iterator[Any]:
    """The PlatformBreaks, for breaks of this sync."""
    with parts.breaks() as store:
        yield _Masked(store, sync)


def hidden(sync: str) -> Hidden:
    """What is masked of a sync."""
    return hidden_columns(settings.load().declarations, sync)


def hides_keys(sync: str, table: str) -> bool:
    """Whether a key of the table is masked; of table "": that of any table of the sync. A table whose key nobody knows
    counts as one."""
    found = hidden(sync)
    if not found.is_any or found.tables is None:
        return found.is_any
    with parts.platform() as store:
        newest = store.latest_run(sync, *RunKind)
    keys = {one.name: one.target.key for one in newest.plan.tables if one.table} if newest else {}
    return any(_hides_key(found, name, keys.get(name, ())) for name in ([table] if table else found.tables))


def _hides_key(found: Hidden, table: str, key: Sequence[str]) -> bool:
    return found.is_about(table) and (not key or any(found.hides(table, column) for column in key))


class _Masked:
    """A store whose answers are masked, whatever it is asked."""

    def __init__(self, store: Any, sync: str) -> None:
        self._store = store
        self._sync = sync
        self._hidden = cache(hidden)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        asked = getattr(self._store, name)

        def answered(*arguments: Any, **named: Any) -> Any:
            try:
                found = asked(*arguments, **named)
            except _NOT_READABLE as exc:
                raise TerminalError(f"what is stored cannot be read: {why_unreadable(exc)}", hint=_CURE) from exc
            return masked(found, self._hidden, self._sync)

        return answered


def why_unreadable(exc: Exception) -> str:
    """In words: what was raised may be a bare name."""
    return str(exc) if isinstance(exc, SeamlineError) else f"{type(exc).__name__}: {exc}"
