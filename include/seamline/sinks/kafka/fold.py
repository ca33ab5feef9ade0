"""The rows of a topic as they stand at an offset of each partition: its records, one after another.

They lie in a file of the temporary folder that has no name and goes with the process. Memory is bounded by SQLite's
page cache; the file has about the size of the live rows.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from seamline.domain.errors import Diverged
from seamline.sinks.kafka.formats import GOES, Form
from seamline.sinks.kafka.reading import committed

_CACHE_KIB = 65_536
_AT_ONCE = 10_000
Changed = tuple[bytes, bytes | None]
"""A key, and its row; None: it goes."""


class Fold:
    """Of a keyed table rows by key, of one without a key copies by row. `ends`: up to where it was read."""

    def __init__(self, *, keyed: bool, partitions: int) -> None:
        self.ends: tuple[int, ...] = (0,) * partitions
        self._keyed = keyed
        # SQLite's name of a file that nobody else sees. Views of a comparison read it from threads of their own.
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        held = "key BLOB PRIMARY KEY, row BLOB" if keyed else "row BLOB PRIMARY KEY, copies INTEGER"
        self._rows.execute(f"CREATE TABLE held ({held}) WITHOUT ROWID")

    def read_on(self, settings: Mapping[str, Any], topic: str, ends: Sequence[int], form: Form) -> "Fold":
        """Up to `ends`, from where it was read to before."""
        for messages in committed(settings, topic, ends, starts=self.ends):
            if self._keyed:
                self.put((message.key() or b"", _row_in(message, form)) for message in messages)
            else:
                self.count(_copies_in(messages, form))
        self.ends = tuple(ends)
        return self

    # ---- with a key -------------------------------------------------------------------------------------------------

    def put(self, changes: Iterable[Changed]) -> None:
        newest = dict(changes)
        stays = [(key, row) for key, row in newest.items() if row is not None]
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT OR REPLACE INTO held VALUES (?, ?)", stays)
        self._rows.executemany("DELETE FROM held WHERE key = ?", [(key,) for key, row in newest.items() if row is None])
        self._rows.execute("COMMIT")

    def row(self, key: bytes) -> bytes | None:
        found = self._rows.execute("SELECT row FROM held WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def held_keys(self) -> Iterator[bytes]:
        return (key for (key,) in self._rows.cursor().execute("SELECT key FROM held"))

    # ---- without a key ----------------------------------------------------------------------------------------------

    def count(self, changes: Mapping[bytes, int]) -> None:
        self._rows.execute("BEGIN")
        self._rows.executemany(
            "INSERT INTO held VALUES (?, ?) ON CONFLICT DO UPDATE SET copies = copies + excluded.copies",
            list(changes.items()),
        )
        self._rows.execute("DELETE FROM held WHERE copies = 0")
        self._rows.execute("COMMIT")

    def copies(self, row: bytes) -> int:
        found = self._rows.execute("SELECT copies FROM held WHERE row = ?", (row,)).fetchone()
        return int(found[0]) if found else 0

    def counted(self) -> Iterator[tuple[bytes, int]]:
        return iter(self._rows.cursor().execute("SELECT row, copies FROM held"))

    # ---- both -------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self._rows.execute("SELECT 1 FROM held LIMIT 1").fetchone() is None

    def rows(self, table: str) -> Iterator[list[bytes]]:
        """All rows, some at a time. Diverged: of a row more copies went than had come."""
        held = self._rows.cursor().execute(f"SELECT row, {'1' if self._keyed else 'copies'} FROM held")
        while some := held.fetchmany(_AT_ONCE):
            if (least := min(copies for _, copies in some)) < 0:
                raise Diverged(f"{-least} copies too many of a row of {table} went", table=table)
            yield [row for row, copies in some for _ in range(copies)]

    def empty(self) -> None:
        self._rows.execute("DELETE FROM held")

    def close(self) -> None:
        self._rows.close()


def _row_in(message: Message, form: Form) -> bytes | None:
    value = message.value()
    return None if value is None or _goes(message) else form.row_in(value)


def _copies_in(messages: Sequence[Message], form: Form) -> Counter[bytes]:
    found = Counter[bytes]()
    for message in messages:
        found[form.row_in(message.value() or b"")] += -1 if _goes(message) else 1
    return found


def _goes(message: Message) -> bool:
    return ("op", GOES) in (message.headers() or ())
