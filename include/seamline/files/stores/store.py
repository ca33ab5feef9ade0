"""What two-phase commit needs of a place for files: whole files, one name for one content, and nothing overwritten."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Readable(Protocol):
    """A stream of bytes; b"" at its end."""

    def read(self, size: int = -1, /) -> bytes: ...


class Sendable(Readable, Protocol):
    """One that can be read again from an offset on."""

    def seek(self, offset: int, /) -> int: ...


class Writable(Protocol):
    def write(self, content: bytes, /) -> int: ...


class Store(Protocol):
    """Files by their paths below one root, with `/` between names. TransientError: it does not answer, or refuses.

    Not safe to share between threads.
    """

    def names(self, folder: str) -> Sequence[str]:
        """What lies right there, in the order of names; nothing where the folder is missing. "" is the root."""

    def size(self, path: str) -> int | None:
        """Bytes of a file; None where there is none."""

    def write(self, path: str, content: Sendable) -> None:
        """A file under a name that nobody else writes to, with the folders above it. It is whole when the call returns,
        and on the disk of a store that can be asked for that. A store may read parts of the content again, where its
        connection broke."""

    def read(self, path: str, into: Writable) -> None:
        """FileNotFoundError: there is none."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """A small file, whole or not at all, unless one of that name is there. Whether it is this one.

        Read by `read_put` alone: a store may keep it in a form of its own.
        """

    def read_put(self, path: str) -> bytes:
        """FileNotFoundError: there is none."""

    def place(self, source: str, target: str) -> bool:
        """Let a whole file be seen under another name, unless one of that name is there. Whether it was placed.

        The source may be gone afterwards. FileNotFoundError: it was gone before. A repeat changes nothing.
        """

    def remove(self, path: str) -> None:
        """A file, or what `put_if_absent` has made. A repeat changes nothing."""

    def remove_folder(self, folder: str) -> None:
        """With all that lies in it. A repeat changes nothing."""

    def drop_unfinished(self, folder: str, before: datetime) -> int:
        """Remove what a store keeps of uploads below a folder that began before then and never ended, and that nobody
        sees; how many. A store that does not let this login look for them keeps them."""

    def close(self) -> None: ...
