"""Archives what a log is about to lose: nothing is pruned that does not lie in the archive, read back and committed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.domain.log_archive import Archived
from seamline.domain.log_floor import Floor, LogEnds
from seamline.plan.model import SourcePlan
from seamline.ports.log_archive import LogArchive

OpenArchive = Callable[[SourcePlan, str], AbstractContextManager[LogArchive]]
"""The archive of a source's log topic with this id."""


def no_archive(source: SourcePlan, topic_id: str) -> AbstractContextManager[LogArchive]:
    raise InvariantViolated(f"nobody opens the archive of {source.log_topic}, id {topic_id}")


@dataclass(frozen=True, slots=True)
class Archiving:
    """What became of the archive of one log. `added` counts offsets, and `expired` files. `trouble`: why the rest is
    not archived, and so not pruned; "" where all of it is."""

    archived: Archived | None = None
    added: int = 0
    expired: int = 0
    trouble: str = ""

    def below(self, floor: int, begins: int) -> int:
        """Up to where the log may be pruned."""
        if self.archived is None or not self.archived.parts:
            return begins
        return max(begins, min(floor, self.archived.ends))


def archived_before(source: SourcePlan, log: LogEnds, open_archive: OpenArchive) -> Archiving:
    """What its archive holds already."""
    try:
        with open_archive(source, log.topic_id) as archive:
            return Archiving(archive.archived())
    except SeamlineError as exc:
        return Archiving(trouble=exc.message)


def knowing(log: LogEnds, before: Archiving) -> LogEnds:
    """The log, with what of it is in the archive."""
    found = before.archived
    if found is None or not found.parts or found.ends < log.begins:
        return log
    return replace(log, archived_from=found.begins)


def archive_log(
    source: SourcePlan, log: LogEnds, floor: Floor, before: Archiving, open_archive: OpenArchive
) -> Archiving:
    """Archive everything below the floor, then let the archive's own keep end. A repeat goes on.

    What is committed counts, also where the rest could not be archived.
    """
    if before.archived is None or source.archive is None:
        return before
    done = before
    try:
        with open_archive(source, log.topic_id) as archive:
            try:
                found = archive.extend(log.begins, min(floor.below, log.ends))
            except SeamlineError as exc:
                return _counted(before, archive.archived(), trouble=_in_full(exc))
            done = _counted(before, found)
            gone = archive.expire(keep_days=source.archive.keep_days, needed_from=floor.needed_from)
            return replace(done, archived=archive.archived() if gone else done.archived, expired=len(gone))
    except SeamlineError as exc:
        return replace(done, trouble=_in_full(exc))


def _counted(before: Archiving, found: Archived, trouble: str = "") -> Archiving:
    earlier = before.archived
    since = earlier.ends if earlier and earlier.parts else found.begins
    return Archiving(found, found.ends - since, trouble=trouble)


def _in_full(error: SeamlineError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
