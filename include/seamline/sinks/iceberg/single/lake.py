"""A lake of Iceberg tables whose catalogue commits single tables, as one destination has it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from seamline.databases.postgres.client import Session, translated
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.lake import lake_of
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.orphans import drop_orphans
from seamline.sinks.iceberg.single.cuts import open_cuts
from seamline.sinks.iceberg.single.opening import pointers_there
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.lake.lake import Lake


def single_lake_of(destination: DestinationPlan) -> Lake:
    options = options_of(destination)

    def sweep(session: Session) -> int:
        return drop_orphans(partial(_all_pointers, session, destination, options), options, destination.namespace)

    return replace(lake_of(destination), open_cuts=partial(open_cuts, destination), sweep=sweep)


def _all_pointers(session: Session, destination: DestinationPlan, options: LakeOptions) -> Sequence[str]:
    """Of the ledger, and of the catalogue, which may be behind it or ahead."""
    there = pointers_there(destination).values()
    with translated("read the pointers of all tables"):
        return [*there, *LedgerPointers(options.catalog).all_pointers(session)]
