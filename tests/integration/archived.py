"""A log whose records lie in its archive alone."""

from dataclasses import replace
from pathlib import Path

from seamline import registry
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.plan.model import ArchivePlan, SyncPlan


def moved_into_archive(plan: SyncPlan, topics: CaptureTopics, folder: Path) -> SyncPlan:
    """Archive all that the log holds and prune it; the plan that declares the archive."""
    source = replace(plan.source, archive=ArchivePlan(str(folder)))
    begins, ends = topics.offsets(source.log_topic)
    with registry.log_archive(source, topics.topic_id(source.log_topic)) as archive:
        found = archive.extend(begins, ends)
    assert topics.prune(source.log_topic, below=found.ends) == found.ends > begins
    return replace(plan, source=source)
