"""The ACLs that somebody with rights on the cluster gives the login of such a source once."""

from collections.abc import Sequence

from seamline.plan.model import SourcePlan
from seamline.sources.kafka.layout import layout_of
from seamline.sources.kafka.ours import control_of


def grant_script(source: SourcePlan, tables: Sequence[str], *, login: str) -> str:
    """Lines of Kafka's own tool. A repeat changes nothing."""
    layout = layout_of(source)
    found = [one for one in map(layout.of, tables) if one is not None]
    topics = sorted({one.topic for one in found})
    controls = sorted({control_of(one.topic) for one in found if not one.definition.is_keyed} - {""})
    tool = "kafka-acls --bootstrap-server <servers> --command-config <settings of an administrator>"
    who = f"--add --allow-principal User:{login}"
    reads = "--operation Read --operation Describe --operation DescribeConfigs"
    lines = [
        f"# ACLs of source {source.name}. A cluster without an authorizer needs none. It reads, and writes nothing.",
        *(f"{tool} {who} {reads} --topic {topic}" for topic in topics),
        *(
            line
            for topic in controls
            for line in (
                "# Of tables without a key, where a destination of Seamline writes them: its control topic.",
                f"{tool} {who} {reads} --topic {topic}",
            )
        ),
        f"{tool} {who} --operation Read --group seamline-destination",
    ]
    return "\n".join([*lines, ""])
