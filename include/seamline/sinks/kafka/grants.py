"""The ACLs that somebody with rights on the cluster gives the login of a destination once."""

from seamline.plan.model import DestinationPlan
from seamline.sinks.kafka.options import options_of


def grant_script(destination: DestinationPlan, *, login: str) -> str:
    """Lines of Kafka's own tool. A repeat changes nothing."""
    prefix = options_of(destination).prefix
    who = f"--add --allow-principal User:{login}"
    tool = "kafka-acls --bootstrap-server <servers> --command-config <settings of an administrator>"
    on_topics = ("Create", "Describe", "DescribeConfigs", "Read", "Write", "Delete")
    topics = " ".join(f"--operation {one}" for one in on_topics)
    # With the sign behind the prefix: `bank` alone would also give the topics of a destination `bank2`.
    of_loads, of_snapshots = f"{destination.stage_namespace}.", destination.incremental_namespace("")
    prefixes = (f"{prefix}.", of_loads, of_snapshots)
    lines = [
        f"# ACLs of destination {destination.name}. A cluster without an authorizer needs none.",
        "# Topics of tables and the control topic, of loads, of incremental snapshots; transactions; readers that",
        "# belong to no group.",
        *(f"{tool} {who} {topics} --resource-pattern-type prefixed --topic {one}" for one in prefixes),
        f"{tool} {who} --operation Write --operation Describe --resource-pattern-type prefixed"
        f" --transactional-id {prefix}.",
        f"{tool} {who} --operation Read --group seamline-destination",
        f"{tool} {who} --operation IdempotentWrite --operation DescribeConfigs --cluster",
        "# Who reads the topics needs this, and read_committed in his own settings.",
        f"{tool} --add --allow-principal User:<reader> --operation Read --operation Describe"
        f" --resource-pattern-type prefixed --topic {prefix}.",
    ]
    return "\n".join([*lines, ""])
