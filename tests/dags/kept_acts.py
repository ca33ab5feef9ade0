"""The log of acts in memory, with the hashes that the database makes."""

from datetime import UTC, datetime
from typing import Any

from seamline.domain import audit
from seamline.domain.audit import Act, Entry
from seamline.platform.audit import Head


class Acts:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def enter(self, act: Act) -> Head:
        number, previous = len(self.entries) + 1, self.entries[-1].hash if self.entries else audit.NOTHING_BEFORE
        fields: dict[str, Any] = {
            "number": number,
            "at": datetime(2026, 11, 20, 8, tzinfo=UTC),
            "kind": act.kind.value,
            "who": act.who or audit.SCHEDULER,
            "origin": act.origin,
            "subject": act.subject,
            "document": audit.canonical_json(act.document),
            "previous": previous,
        }
        hashed = audit.sha256_of(Entry(**fields, content_hash="", hash="").content)
        link = audit.link_hash(content_hash=hashed, number=number, previous=previous)
        self.entries.append(Entry(**fields, content_hash=hashed, hash=link))
        return Head(number, link)

    def head(self) -> Head | None:
        return Head(self.entries[-1].number, self.entries[-1].hash) if self.entries else None

    def verdict_entries(self, runs: list[str]) -> dict[tuple[str, str, str], Entry]:
        return {
            (one.subject.run_id, one.subject.destination, one.subject.scope): one
            for one in self.entries
            if one.kind in audit.ABOUT_VERDICTS and one.subject.run_id in runs
        }
