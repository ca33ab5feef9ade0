"""Which files belong to the archive: an entry for each, put by its first offset unless one is there.

So no two runs commit the same records, and a file without an entry is not part of the archive, whatever it is called.
"""

import json
import re
from collections.abc import Iterator

from seamline.domain.errors import GateFailed, TransientError
from seamline.domain.log_archive import Archived, ArchivedPart, part_from_json, part_to_json
from seamline.files.stores.store import Store

_ENTRY = re.compile(r"(\d{20})\.json")
_FILE = re.compile(r"(\d{20})-(\d{20})\.parquet")
# Readers of a folder of Parquet files pass over names that begin so.
DRAFTS = "_drafts"


def at_the_same_time(folder: str) -> TransientError:
    return TransientError(
        f"somebody else archives {folder} at the same time",
        hint="it is tried again; only `seamline__maintenance` of one installation may archive a log",
    )


class Manifest:
    """The files of one log topic below `folder` of a store."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self.folder = folder

    @property
    def records(self) -> str:
        return f"{self.folder}/records"

    @property
    def drafts(self) -> str:
        return f"{self.folder}/{DRAFTS}"

    def file_of(self, begins: int, ends: int) -> str:
        return f"{self.records}/{begins:020d}-{ends:020d}.parquet"

    def beginnings(self) -> list[int]:
        """The first offset of each part, in order."""
        found = map(_ENTRY.fullmatch, self._store.names(f"{self.folder}/manifest"))
        return sorted(int(match[1]) for match in found if match)

    def files(self) -> list[tuple[int, int]]:
        """The offsets of each file that is there, committed or not, in order."""
        found = map(_FILE.fullmatch, self._store.names(self.records))
        return sorted((int(match[1]), int(match[2])) for match in found if match)

    def part(self, begins: int) -> ArchivedPart:
        """GateFailed: its entry is not one."""
        try:
            content = self._store.read_put(self._entry(begins))
        except FileNotFoundError as exc:
            raise TransientError(f"{self._entry(begins)} of the archive was removed just now") from exc
        try:
            part = part_from_json(json.loads(content))
        except (ValueError, TypeError) as exc:
            raise GateFailed(
                f"{self._entry(begins)} of the archive is no entry of its manifest: {exc}",
                hint="put it back from a copy",
            ) from exc
        if part.begins != begins:
            raise GateFailed(
                f"{self._entry(begins)} of the archive is of offset {part.begins}", hint="put it back from a copy"
            )
        return part

    def parts(self, since: int = 0) -> Iterator[ArchivedPart]:
        """Those that hold offsets from `since` on, in order. GateFailed: one between them is gone."""
        beginnings = self.beginnings()
        first = max((number for number, begins in enumerate(beginnings) if begins <= since), default=0)
        ends = -1
        for begins in beginnings[first:]:
            if ends not in (-1, begins):
                raise GateFailed(
                    f"the archive in {self.folder} has nothing from offset {ends} to {begins}",
                    hint="put its manifest and its files back from a copy",
                )
            part = self.part(begins)
            ends = part.ends
            if part.ends > since:
                yield part

    def archived(self) -> Archived:
        beginnings = self.beginnings()
        if not beginnings:
            return Archived(0, 0)
        first, last = self.part(beginnings[0]), self.part(beginnings[-1])
        size = last.bytes_so_far - first.bytes_so_far + first.size_bytes
        return Archived(first.begins, last.ends, len(beginnings), size)

    def commit(self, part: ArchivedPart) -> None:
        """A repeat changes nothing. TransientError: somebody else has committed other records at this place."""
        content = json.dumps(part_to_json(part), sort_keys=True).encode()
        if self._store.put_if_absent(self._entry(part.begins), content):
            return
        if self._store.read_put(self._entry(part.begins)) != content:
            raise at_the_same_time(self.folder)

    def remove(self, part: ArchivedPart) -> None:
        """The entry first: from then on its file counts no more."""
        self._store.remove(self._entry(part.begins))
        self._store.remove(self.file_of(part.begins, part.ends))

    def _entry(self, begins: int) -> str:
        return f"{self.folder}/manifest/{begins:020d}.json"
