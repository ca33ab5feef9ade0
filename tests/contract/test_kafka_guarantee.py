"""Under which guarantee topics were written, as a comparison of them keeps it."""

from contextlib import closing
from dataclasses import replace

from seamline.domain.catalogue import Table
from seamline.sinks.kafka.commit import where_of
from seamline.sinks.kafka.control import read_control
from seamline.sinks.kafka.options import options_of
from seamline.sinks.kafka.read_back import live_of
from seamline.sinks.kafka.sink import KafkaSink
from tests.contract.behaviours import Applying, account, published
from tests.contract.kafka_world import KafkaWorld
from tests.contract.test_kafka_destination import end_before_the_control_record
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert
from tests.opened_sink import decoder_of

CALL = {"actor": "x", "action": "y"}


def guarantee_of(world: KafkaWorld, table: Table) -> str:
    state = read_control(world.settings, options_of(world.destination).control_topic).states[STREAM]
    with closing(live_of(world.settings, where_of(world.plan, world.destination), [table], state)) as view:
        return view.guarantee


def test_topics_say_at_least_once_as_long_as_they_hold_records_that_do_not_count(stack: object) -> None:
    """Whatever the sync declares by now: a run said exactly once of them."""
    with closing(KafkaWorld(TABLES, guarantee="at_least_once")) as world:
        published(world).span(insert(AUDIT, **CALL))
        assert [guarantee_of(world, table) for table in (ACCOUNT, AUDIT)] == ["at_least_once"] * 2
        end_before_the_control_record(world, insert(ACCOUNT, **account(2)), insert(AUDIT, **CALL))
        declared_since = replace(world.plan, guarantee="exactly_once")
        sink = KafkaSink(declared_since, world.destination, decoder=decoder_of(world.plan))
        stream = Applying(world, sink=sink)
        stream.span(insert(ACCOUNT, **account(2)), insert(AUDIT, **CALL))
        stream.span(insert(ACCOUNT, **account(3)))
        assert [guarantee_of(world, table) for table in (ACCOUNT, AUDIT)] == ["", "at_least_once"]
        sink.close()
