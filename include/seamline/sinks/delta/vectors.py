"""Deletion vectors: which rows of a data file are no longer in the table, as a bitmap of their positions.

The format is that of the Delta protocol: a Roaring bitmap of 64 bits behind a magic number, several of them in a file,
each with its size before it and its CRC-32 behind it.
"""

import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from pyroaring import BitMap64

from seamline.domain.errors import Refused
from seamline.sinks.lake.rows import Numbers

_MAGIC = 1681511377
_FILE_VERSION = b"\x01"
_UUID_LETTERS = 20
# Python's letters of base 85 by those that the protocol has for the same digits (Z85).
_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_DELTA = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_DELTA, _FROM_DELTA = str.maketrans(_PYTHON, _DELTA), str.maketrans(_DELTA, _PYTHON)


@dataclass(frozen=True, slots=True)
class Vector:
    """A descriptor, as an action carries it. `size`: bytes of the bitmap; `cardinality`: rows that are gone."""

    storage: str
    place: str
    offset: int | None
    size: int
    cardinality: int

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> "Vector | None":
        """Of an `add` or `remove`; None where all rows of the file are in the table."""
        found = action.get("deletionVector")
        if found is None:
            return None
        return cls(
            found["storageType"],
            found["pathOrInlineDv"],
            found.get("offset"),
            found["sizeInBytes"],
            found["cardinality"],
        )

    @property
    def unique_id(self) -> str:
        """By which the protocol tells apart what is left of one data file at different versions."""
        return f"{self.storage}{self.place}" + ("" if self.offset is None else f"@{self.offset}")

    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = {"storageType": self.storage, "pathOrInlineDv": self.place}
        if self.offset is not None:
            found["offset"] = self.offset
        return {**found, "sizeInBytes": self.size, "cardinality": self.cardinality}

    def file_in(self, folder: Path) -> Path | None:
        """Where its bitmap lies; None of one that the log itself holds."""
        if self.storage == "u":
            prefix, letters = self.place[:-_UUID_LETTERS], self.place[-_UUID_LETTERS:]
            return folder / prefix / _file_name(UUID(bytes=_bytes_of(letters)))
        if self.storage == "p":
            return Path(self.place.removeprefix("file://").removeprefix("file:"))
        return None

    def positions(self, folder: Path) -> Numbers:
        """Ascending. Refused: the bitmap is not as its descriptor and its checksum say."""
        path = self.file_in(folder)
        if path is None:
            return _positions(_bytes_of(self.place)[: self.size], str(folder))
        with path.open("rb") as file:
            file.seek(self.offset or 0)
            found = file.read(self.size + 8)
        size, bitmap, checksum = found[:4], found[4:-4], found[-4:]
        if size != struct.pack(">i", self.size) or checksum != struct.pack(">I", zlib.crc32(bitmap)):
            raise Refused(f"deletion vector {path} is damaged at byte {self.offset}", hint="onboard its sync again")
        return _positions(bitmap, str(path))


class VectorFile:
    """A new file of deletion vectors. `number` is in its name; nobody else has it."""

    def __init__(self, number: UUID) -> None:
        self._number = number
        self._content = bytearray(_FILE_VERSION)

    @property
    def name(self) -> str:
        return _file_name(self._number)

    @property
    def is_empty(self) -> bool:
        return len(self._content) == len(_FILE_VERSION)

    def put(self, positions: Numbers) -> Vector:
        """`positions`: of all rows of a data file that are gone."""
        bitmap = struct.pack("<i", _MAGIC) + BitMap64(positions.astype(np.uint64)).serialize()
        offset = len(self._content)
        self._content += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        letters = base64.b85encode(self._number.bytes).decode().translate(_TO_DELTA)
        return Vector("u", letters, offset, len(bitmap), len(positions))

    def write(self, path: Path) -> None:
        path.write_bytes(self._content)


def _positions(bitmap: bytes, where: str) -> Numbers:
    if bitmap[:4] != struct.pack("<i", _MAGIC):
        raise Refused(f"{where} holds a deletion vector of another format", hint="onboard its sync again")
    return np.frombuffer(BitMap64.deserialize(bitmap[4:]).to_array(), np.uint64).astype(np.int64)


def _bytes_of(letters: str) -> bytes:
    return base64.b85decode(letters.translate(_FROM_DELTA))


def _file_name(number: UUID) -> str:
    return f"deletion_vector_{number}.bin"
