"""What is asked of a catalogue that commits one table at a time: a pointer per table, moved by compare-and-set."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pyiceberg.catalog.hive import SchemaToHiveConverter
from pyiceberg.schema import visit
from pyiceberg.table.metadata import TableMetadata

# As Iceberg's own clients call them (`BaseMetastoreTableOperations`, Iceberg 1.12).
POINTER: Final = "metadata_location"
_POINTER_BEFORE: Final = "previous_metadata_location"
_FORMAT: Final = "table_type"


# Both catalogues keep names in lower case, and a metastore takes no others.
NAME: Final = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a catalogue has under a name. `pointer`: the metadata file; "" of what is no Iceberg table."""

    pointer: str

    @property
    def folder(self) -> str:
        return folder_of(self.pointer)


class SingleCatalogue(Protocol):
    """The tables of one namespace. TransientError where the catalogue does not answer."""

    def entries(self) -> Mapping[str, Entry]:
        """By name. None where the namespace is not there."""

    def make_namespace(self, folder: str) -> None:
        """Where it is missing. `folder`: as a URL."""

    def add(self, name: str, pointer: str, metadata: TableMetadata) -> bool:
        """False where the name is taken."""

    def move(self, name: str, old: str, new: str, metadata: TableMetadata) -> bool:
        """Let the entry lead to `new`, if it leads to `old`; whether it did."""

    def drop(self, name: str) -> None:
        """The entry alone: files stay. A repeat finds it gone."""

    def close(self) -> None: ...


def folder_of(pointer: str) -> str:
    """The folder of a table, which no other table ever has, by its metadata file."""
    return pointer.rpartition("/metadata/")[0]


def entry_of(parameters: Mapping[str, str]) -> Entry:
    is_iceberg = str(parameters.get(_FORMAT, "")).upper() == "ICEBERG"
    return Entry(str(parameters.get(POINTER, "")) if is_iceberg else "")


def parameters_of(new: str, old: str = "", known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of an entry that leads to `new`. `known`: those that it has, which stay."""
    said = {"EXTERNAL": "TRUE", _FORMAT: "ICEBERG", POINTER: new}
    return {**(known or {}), **said, **({_POINTER_BEFORE: old} if old else {})}


def columns_of(metadata: TableMetadata) -> Sequence[tuple[str, str]]:
    """Name and Hive's type, for engines that show columns without opening a table."""
    # As metastores of 2.3 know types too.
    converter = SchemaToHiveConverter(hive2_compatible=True)
    return [(field.name, str(visit(field.field_type, converter))) for field in metadata.schema().fields]
