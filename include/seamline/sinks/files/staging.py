"""Where rows of a destination wait until they are compared: Parquet files in folders of their attempts."""

from collections.abc import Sequence
from pathlib import Path

from seamline.domain.position import Position
from seamline.kinds.bulk import StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.files import types
from seamline.sinks.files.options import options_of
from seamline.sinks.lake import loads, read_back
from seamline.sinks.lake.files import root_of
from seamline.sinks.lake.loads import LakeLoadArea
from seamline.sinks.lake.read_view import LakeView
from seamline.sinks.lake.stores import FilePath


def staging_of(destination: DestinationPlan) -> FilePath:
    options = options_of(destination)
    return root_of(options.staging, options.staging_connection)


def load_area(destination: DestinationPlan) -> LakeLoadArea:
    root = staging_of(destination)
    # One below the place itself is ours to make; any other one, and the place, must be there.
    place = Path(dict(destination.options).get("location", destination.namespace))
    if isinstance(root, Path) and place in root.parents and place.is_dir():
        root.mkdir(parents=True, exist_ok=True)
    return LakeLoadArea(root, destination.name)


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    """`SinkKind.load`."""
    return loads.load(staging_of(destination), place, rows, types)


def open_staged(
    destination: DestinationPlan, staged: Sequence[Load], count: int, *, position: Position
) -> list[LakeView]:
    return read_back.open_staged(staging_of(destination), staged, count, position=position, storage=types)
