"""Cuts of Iceberg tables: `lake.cuts` with Iceberg's tags and views."""

from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.derived import cut_derived
from seamline.sinks.iceberg.io import warehouse_io
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.tags import IcebergTags
from seamline.sinks.iceberg.views import IcebergViewFiles
from seamline.sinks.lake import cuts as lake_cuts
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.cut_views import CutViews
from seamline.sinks.lake.cuts import LakeCuts


def open_cuts(destination: DestinationPlan) -> LakeCuts:
    options = options_of(destination)
    catalogue = Catalogue(options.catalog)
    views = CutViews(catalogue, destination.cut_namespace, IcebergViewFiles(options, destination))
    return lake_cuts.open_cuts(destination, catalogue, IcebergTags(warehouse_io(options)), views, cut_derived(options))
