"""From where on a reader comes to the end of a source's log, through its archive where the log no longer reaches."""

from seamline import registry
from seamline.plan.model import SourcePlan


def begins_through_archive(source: SourcePlan, topic_id: str, log_begins: int) -> int:
    """The first such offset. `log_begins`: the first one that the log itself has. Raises what keeps the archive from
    being looked at."""
    if source.archive is None:
        return log_begins
    with registry.log_archive(source, topic_id) as archive:
        found = archive.archived()
    return found.begins if found.reaches(found.begins, log_begins) else log_begins
