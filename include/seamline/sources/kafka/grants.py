"""The ACLs that somebody with rights on the cluster gives the login of such a source once."""

from collections.abc import Sequence

from seamline.plan.model import SourcePlan
from seamline.sources.kafka.layout import layout_of


def grant_script(source: SourcePlan, tables: Sequence[str], *, login: str) -> str:
    """Lines of Kafka's own tool. A repeat changes nothing."""
    layout = layout_of(source)
    topics = sorted({one.topic for one in map(layout.of, tables) if one is not None})
    tool = "kafka-acls --bootstrap-server <servers> --command-config <settings of an administrator>"
    who = f"--add --allow-principal User:{login}"
    reads = "--operation Read --operation Describe --operation DescribeConfigs"
    lines = [
        f"# ACLs of source {source.name}. A cluster without an authorizer needs none. It reads, and writes nothing.",
        *(f"{tool} {who} {reads} --topic {topic}" for topic in topics),
        f"{tool} {who} --operation Read --group seamline-destination",
    ]
    return "\n".join([*lines, ""])
