"""What tasks and triggers take from the composition root, built again for each use and closed after it.

Imported inside functions only: the clients behind the registry stay out of the parsing of DAGs.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from typing import Any, BinaryIO

from seamline.domain.day_closed import Look
from seamline.plan.model import SyncPlan
from seamline.ports import CaptureRegistry, PruningHolds, Sink, Source
from seamline.ports.cuts import Cuts
from seamline.ports.questions import AnswersQuestions


@contextmanager
def platform() -> Iterator[Any]:
    """The PlatformStore."""
    from seamline import registry

    with closing(registry.platform()) as store:
        yield store


def questions(plan: SyncPlan) -> AnswersQuestions:
    """What is asked whether the source's day is closed. It opens a session for each question."""
    from seamline import registry

    return registry.questions(plan)


def delivery(plan: SyncPlan, business_date: date) -> Look:
    """Whether the source has delivered a date."""
    from seamline import registry

    return registry.delivery(plan, business_date)


@contextmanager
def breaks() -> Iterator[Any]:
    """The PlatformBreaks."""
    from seamline import registry

    with closing(registry.breaks()) as opened:
        yield opened


@contextmanager
def work() -> Iterator[Any]:
    """The PlatformWork."""
    from seamline import registry

    with closing(registry.work()) as opened:
        yield opened


@contextmanager
def attachments() -> Iterator[Any]:
    """The PlatformAttachments."""
    from seamline import registry

    with closing(registry.attachments()) as opened:
        yield opened


@contextmanager
def notices() -> Iterator[Any]:
    """The PlatformNotices."""
    from seamline import registry

    with closing(registry.notices()) as opened:
        yield opened


@contextmanager
def tolerances() -> Iterator[Any]:
    """The PlatformTolerances."""
    from seamline import registry

    with closing(registry.tolerances()) as opened:
        yield opened


@contextmanager
def late_inputs() -> Iterator[Any]:
    """The PlatformLateInputs."""
    from seamline import registry

    with closing(registry.late_inputs()) as opened:
        yield opened


@contextmanager
def late_postings() -> Iterator[Any]:
    """The PlatformLatePostings."""
    from seamline import registry

    with closing(registry.late_postings()) as opened:
        yield opened


@contextmanager
def declared_changes() -> Iterator[Any]:
    """The PlatformDeclaredChanges."""
    from seamline import registry

    with closing(registry.declared_changes()) as opened:
        yield opened


@contextmanager
def signatures() -> Iterator[Any]:
    """The PlatformSignatures."""
    from seamline import registry

    with closing(registry.signatures()) as opened:
        yield opened


@contextmanager
def repairs() -> Iterator[Any]:
    """The PlatformRepairs."""
    from seamline import repairing

    with closing(repairing.repairs()) as opened:
        yield opened


def planned_repair(sync: str, *, named: str = "", **asked: str) -> Any:
    """The Repair of this name, or one that is planned as `repairing.plan` takes it."""
    from seamline import repairing

    if not named:
        return repairing.plan(sync, **asked)
    with closing(repairing.repairs()) as kept:
        return kept.repair(kept.named(named, sync=sync))


def applied_repair(run_id: str) -> Any:
    """The Repair, as `repairing.apply` has left it."""
    from seamline import repairing

    return repairing.apply(run_id)


@contextmanager
def director() -> Iterator[Any]:
    """The PlatformStreamDirector."""
    from seamline import registry

    with closing(registry.director()) as opened:
        yield opened


@contextmanager
def audit() -> Iterator[Any]:
    """The PlatformAudit."""
    from seamline import registry

    with closing(registry.audit()) as opened:
        yield opened


def evidence(sync: str, day: date) -> BinaryIO:
    """The evidence of a business date as a zip; whoever reads it closes it."""
    from seamline import registry

    return registry.evidence(sync, day)


def anchor_audit() -> str:
    """Write the head of the log of acts down outside of the platform database; says which and where."""
    from seamline import registry

    return registry.anchor_audit()


@contextmanager
def driver_runs() -> Iterator[Any]:
    """The PlatformDriverRuns."""
    from seamline import registry

    with closing(registry.driver_runs()) as opened:
        yield opened


@contextmanager
def capture_registry() -> Iterator[CaptureRegistry]:
    from seamline import registry

    with closing(registry.capture_registry()) as opened:
        yield opened


@contextmanager
def pruning_holds() -> Iterator[PruningHolds]:
    from seamline import registry

    with closing(registry.pruning_holds()) as opened:
        yield opened


def reach(failpoint: str) -> None:
    """A place where a test holds or ends this process. Nothing happens unless it is armed, which is the exception."""
    from seamline import registry

    armed = registry.failpoints()
    if armed is not None:
        armed.reach(failpoint)


@contextmanager
def sink(plan: SyncPlan, destination: str) -> Iterator[Sink]:
    from seamline import registry

    with closing(registry.sink(plan, destination)) as opened:
        yield opened


@contextmanager
def source(plan: SyncPlan) -> Iterator[Source]:
    from seamline import registry

    yield registry.source(plan)


@contextmanager
def cut_publisher(plan: SyncPlan, destination: str) -> Iterator[Cuts]:
    """The power of a destination to hold cuts."""
    from seamline import registry

    with closing(registry.cuts(plan.destination(destination))) as opened:
        yield opened
