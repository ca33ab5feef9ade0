"""A sink of PostgreSQL as `registry.sink` opens it, with what a test puts in place of a part."""

from typing import Any

from seamline.kinds.found import logged_kind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.postgres.sink import PostgresSink
from seamline.values.changes import ChangeDecoder


def decoder_of(plan: SyncPlan) -> ChangeDecoder:
    return logged_kind(plan.source.kind).change_decoder(plan.source)


def postgres_sink(plan: SyncPlan, destination: DestinationPlan, **parts: Any) -> PostgresSink:
    return PostgresSink(plan, destination, decoder=decoder_of(plan), **parts)
