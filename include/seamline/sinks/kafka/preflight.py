"""What keeps a cluster from taking a plan's tables: names, topics of other settings, replicas, transactions."""

from collections.abc import Iterator
from typing import Any

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.topics import CaptureTopics, TopicFacts, TopicRule, faults, set_by
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.kafka.control import read_control
from seamline.sinks.kafka.options import CONTROL, options_of, topic_of
from seamline.sinks.kafka.standing import taken, written_by
from seamline.sinks.kafka.topics import CONTROL_RULE, rule_of
from seamline.sinks.kafka.transaction import Transactions

_RENAME = "give it another name at the source or by `as`, or leave the table out of the sync"
_IN_SYNC_MIN = 2
# Of Kafka's 249; what stands before and behind it in the name of a staged topic has the others.
_TOPIC_LETTERS = 150


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    """TransientError where the cluster does not answer; a refused login is a problem like any other.

    Nothing is written; the cluster may come to know a transactional id of its own.
    """
    found = [*_of_names(plan)]
    try:
        found += _of_cluster(plan, destination, client_settings(resolve(destination.connection)))
    except ConfigError as exc:
        found.append((exc.message, exc.hint, True))
    return tuple(
        Problem(f"destination {destination.name}: {what}", cure, is_fatal=is_fatal) for what, cure, is_fatal in found
    )


def _of_names(plan: SyncPlan) -> Iterator[tuple[str, str, bool]]:
    for table in plan.tables:
        if table.name == CONTROL:
            yield f"the topic of table {table.name} and the control topic have one name", _RENAME, True
        elif len(topic_of("", table.name)) > _TOPIC_LETTERS:
            yield f"the name of table {table.name} is too long for a topic, which spells it in bytes", _RENAME, True


def _of_cluster(
    plan: SyncPlan, destination: DestinationPlan, settings: dict[str, Any]
) -> Iterator[tuple[str, str, bool]]:
    options = options_of(destination)
    topics = CaptureTopics(settings, replication=options.replication)
    wanted = {options.control_topic: CONTROL_RULE}
    wanted |= {
        topic_of(destination.namespace, table.name): rule_of(table.definition, options)
        for table in plan.tables
        if table.table is not None
    }
    writers = taken(read_control(settings, options.control_topic), plan.stream_id(destination.name))
    of_others = {topic_of(destination.namespace, table): written_by(table, other) for table, other in writers.items()}
    for topic, rule in wanted.items():
        facts = topics.facts(topic)
        if facts is not None:
            yield from _of_topic(facts, rule)
            if topic in of_others:
                yield (*of_others[topic], True)
        elif why := topics.refusal(topic, rule):
            yield f"topic {topic} cannot be made: {why}", "let the login create topics, or make it yourself", True
    # Who may not use the id, or for so long, is refused here.
    Transactions(settings, f"{options.prefix}.preflight", timeout_s=options.transaction_timeout_s)


def _of_topic(facts: TopicFacts, rule: TopicRule) -> Iterator[tuple[str, str, bool]]:
    for fault in faults(facts, rule):
        yield f"topic {facts.name} ({rule.purpose}): {fault}", "alter the topic, or let Seamline make it", True
    short = {name: least for name, least in rule.wished.items() if int(facts.settings.get(name, least)) < least}
    if short:
        said = ", ".join(f"{name} is {facts.settings[name]}" for name in short)
        yield (
            f"topic {facts.name}: {said}, so a reader that stands still for longer does not see that rows went, and a"
            " second sync warns of it",
            f"Set it with Kafka's own tool: {set_by(facts.name, short)}",
            False,
        )
    in_sync = int(facts.settings.get("min.insync.replicas", "1"))
    if in_sync < _IN_SYNC_MIN:
        yield (
            f"topic {facts.name}: min.insync.replicas is {in_sync}, so what is committed may be lost with one broker",
            f"set it to {_IN_SYNC_MIN} on a cluster of three brokers or more",
            False,
        )
