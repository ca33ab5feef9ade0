"""Where rows of a destination wait until they are compared: Parquet files in folders of their attempts."""

from pathlib import Path

from seamline.plan.model import DestinationPlan
from seamline.sinks.files.options import options_of
from seamline.sinks.lake.files import root_of
from seamline.sinks.lake.loads import LakeLoadArea
from seamline.sinks.lake.stores import FilePath


def staging_of(destination: DestinationPlan) -> FilePath:
    options = options_of(destination)
    return root_of(options.staging, options.staging_connection)


def load_area(destination: DestinationPlan) -> LakeLoadArea:
    root = staging_of(destination)
    # One below the place itself is ours to make; any other one, and the place, must be there.
    if isinstance(root, Path) and Path(destination.namespace) in root.parents and Path(destination.namespace).is_dir():
        root.mkdir(parents=True, exist_ok=True)
    return LakeLoadArea(root, destination.name)
