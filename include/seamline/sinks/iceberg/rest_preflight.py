"""What would keep a REST catalogue from taking a sync, asked with the login of its connection. Changes nothing."""

from collections.abc import Iterator
from contextlib import closing

from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.iceberg.placing import misfit_in
from seamline.sinks.iceberg.rest_client import MADE_BY, RestClient
from seamline.sinks.iceberg.rest_ledger import ledger_in, place_of
from seamline.sinks.iceberg.rest_opening import open_client, open_store
from seamline.sinks.lake.live_columns import misfits_in
from seamline.sinks.lake.preflight import of_live_tables


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the server does not answer; a refused login is a problem like any other."""
    name, stream = f"destination {destination.name}", plan.stream_id(destination.name)
    try:
        with closing(open_client(destination)) as client:
            found = dict([*_of_calls(client), *_of_the_ledger(client, stream)])
        if not found:
            with closing(open_store(destination)) as store:
                found.update(of_live_tables(plan, destination, store.look(stream, destination.namespace)))
    except (ConfigError, Refused) as exc:
        found = {exc.message: exc.hint}
    return tuple(Problem(f"{name}: {what}", cure) for what, cure in found.items())


def misfits(plan: SyncPlan, destination: DestinationPlan) -> tuple[Misfit, ...]:
    """Of the stream's live tables those that would not take a load of the planned ones."""
    with closing(open_store(destination)) as store:
        seen = store.look(plan.stream_id(destination.name), destination.namespace)
    return misfits_in(plan, destination, seen, misfit_in(destination))


def _of_calls(client: RestClient) -> Iterator[tuple[str, str]]:
    if missing := client.missing_calls():
        yield (
            f"its server has no call {', '.join(missing)}",
            "all tables of a sync and its ledger move by one call, and a publish makes and renames tables: take a"
            " catalogue that has these calls, or `catalog_type: jdbc`",
        )


def _of_the_ledger(client: RestClient, stream: StreamId) -> Iterator[tuple[str, str]]:
    """Its table is made by the first publish; one that is there must be readable, and of this very stream."""
    place = place_of(stream)
    table = client.load(place)
    if table is None:
        return
    if table.metadata.properties.get(MADE_BY) != str(stream):
        yield f"table {'.'.join(place)} is not the ledger of {stream}", "rename it in the catalogue"
        return
    try:
        ledger_in(table, stream)
    except (KeyError, TypeError, ValueError) as exc:
        yield (
            f"the ledger of {stream}, table {'.'.join(place)}, cannot be read: {exc}",
            "was it written by somebody else, or by a later version? Put it back by its snapshots",
        )
