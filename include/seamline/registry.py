"""Builds adapters from a plan's connection ids. Only composition roots (Spark mains, operators, commands) call it.

Clients are imported when an adapter of theirs is asked for: a Spark worker that streams need not load what a snapshot
needs, and the DAG processor nothing at all.
"""

import dataclasses
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import psycopg

from seamline import settings
from seamline.domain import installed
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, FindingsReported, TableChanges
from seamline.domain.date_before import PublishedTable
from seamline.domain.day_closed import Look
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.late_posting import WatchedTake
from seamline.domain.level import WRITTEN_UNDER, level_evidence
from seamline.domain.log_patch import TablePatch
from seamline.domain.position import Position
from seamline.domain.runs import Reconciliation
from seamline.kinds.found import logged_kind, power, sink_kind, source_kind
from seamline.kinds.frames import Frames, WritesFrames
from seamline.kinds.live_columns import Misfit
from seamline.kinds.sink import (
    CarriesCutsOn,
    CertifiesArrivals,
    CutsLiveTables,
    HoldsCuts,
    KeepsLiveTables,
    ReadsAlone,
    ReadsBack,
)
from seamline.kinds.source import Certifies, HidesSchemaChanges, MayRepeat, ReadsSeparately
from seamline.plan.checks import SourceBudgetPlan
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.platform.attachments import PlatformAttachments
from seamline.platform.audit import PlatformAudit
from seamline.platform.audit_anchor import Anchors, AnchorTopic, Lines, anchor_files, send_anchor, write_anchor
from seamline.platform.audit_export import export, zip_into
from seamline.platform.audit_verifier import PlatformAuditVerifier
from seamline.platform.baselines import PlatformBaselines
from seamline.platform.breaks import PlatformBreaks
from seamline.platform.capture_registry import PlatformCaptureRegistry, PlatformPruningHolds
from seamline.platform.database import Database, open_session, translated
from seamline.platform.declared_changes import PlatformDeclaredChanges
from seamline.platform.driver_runs import PlatformDriverRuns
from seamline.platform.expiry import PlatformExpiry
from seamline.platform.followers import PlatformFollowers
from seamline.platform.host_lease import this_process
from seamline.platform.late_inputs import PlatformLateInputs
from seamline.platform.late_postings import PlatformLatePostings
from seamline.platform.log_pressure import log_pressure
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.notices import PlatformNotices
from seamline.platform.origins import PlatformOrigins
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector
from seamline.platform.tolerances import PlatformTolerances
from seamline.platform.work import PlatformWork
from seamline.ports import (
    CaptureProbe,
    Failpoints,
    HeartbeatPayload,
    LoggedSource,
    LogReader,
    Marker,
    Problem,
    ReadView,
    SchemaGuard,
    Sink,
    Source,
    Survey,
)
from seamline.ports.certificates import ProbeDestination, ProbeSource
from seamline.ports.cuts import Cuts, CutStore, PinnedTables
from seamline.ports.log_archive import LogArchive
from seamline.ports.log_images import LogImages, Texts
from seamline.ports.maintenance import DestinationMaintenance, LogTopics
from seamline.ports.questions import AnswersQuestions, Delivers
from seamline.ports.separate import OpenedSide, SeparateSide
from seamline.sync.day_closed import is_closed_as_asked
from seamline.sync.reading_pace import PaceQuestion, Pacer

_log = logging.getLogger(__name__)
# The chain behind a date may be long; a person waits for it.
_EVIDENCE_TIMEOUT_S = 60.0
# A question about all that is stored of a sync.
_VERIFY_TIMEOUT_S = 300.0

if TYPE_CHECKING:
    from seamline.values.changes import ChangeBatch, ChangeDecoder


def source(plan: SyncPlan) -> Source:
    return source_kind(plan.source.kind).open_source(plan.source)


def logged_source(plan: SyncPlan) -> LoggedSource:
    """The source as one whose log is captured. ConfigError where it has none."""
    if not plan.source.has_log:
        raise ConfigError(f"source {plan.source.name} has no log", hint="only its nights are read", sync=plan.sync)
    return logged_kind(plan.source.kind).open_source(plan.source)


def questions(plan: SyncPlan) -> AnswersQuestions:
    """What is asked whether the source's day is closed."""
    opened = source(plan)
    if not isinstance(opened, AnswersQuestions):
        raise ConfigError(
            f"a source of kind {plan.source.kind} cannot be asked whether its day is closed",
            hint="let `ready_when` name a file or an asset",
            sync=plan.sync,
        )
    return opened


def is_closed(plan: SyncPlan, business_date: date) -> bool:
    """`sync.cut.select`: whether the source has closed a date, as far as it can be asked."""
    wanted = plan.nightly.closed_when if plan.nightly else ()
    return is_closed_as_asked(wanted, business_date, source=lambda: questions(plan))


def delivery(plan: SyncPlan, business_date: date) -> Look:
    """Whether the source has delivered a date."""
    opened = source(plan)
    if not isinstance(opened, Delivers):
        raise ConfigError(f"a source of kind {plan.source.kind} delivers nothing by date", sync=plan.sync)
    return opened.look(business_date, [table.name for table in plan.tables])


def compared_source(plan: SyncPlan, destination_name: str) -> "ComparedSource":
    """The source as a comparison asks it: its views hold what this destination shall hold."""
    return ComparedSource(logged_source(plan), plan.held_by(destination_name))


@dataclass(frozen=True, slots=True)
class ComparedSource:
    """`sync.barrier.ComparedSource`."""

    source: LoggedSource
    plan: SyncPlan

    def commit_marker(self, marker: Marker) -> None:
        self.source.commit_marker(marker)

    def open_views(self, count: int) -> Sequence[ReadView]:
        from seamline.kinds.transformed_view import as_held

        return as_held(self.source.open_views(count), self.plan)


@dataclass(frozen=True, slots=True)
class _SeparateSide:
    """`ports.separate.SeparateSide`."""

    plan: SourcePlan

    def survey(self, tables: Sequence[str]) -> Survey:
        return source_kind(self.plan.kind).open_source(self.plan).survey(tables)

    def open(self, tables: Sequence[Table], count: int) -> OpenedSide:
        kind = power(source_kind(self.plan.kind), ReadsSeparately, to="be read by a login that may only SELECT")
        return kind.open_separately(self.plan, tables, count)


def separate_source(plan: SyncPlan) -> SeparateSide:
    """The source as a login that may only SELECT reads it."""
    return _SeparateSide(plan.source)


def separate_sides(plan: SyncPlan, destination_name: str) -> tuple[SeparateSide, SeparateSide]:
    """Source and destination of a sync that only compares, as they are read.

    ConfigError where the destination's kind cannot be read so.
    """
    destination = plan.destination(destination_name)
    if destination.kind not in installed.names(installed.SOURCES):
        reading = power(sink_kind(destination.kind), ReadsAlone, to="be read without a ledger of ours")
        return separate_source(plan), reading.separate_side(destination)
    kind = power(source_kind(destination.kind), ReadsSeparately, to="be read by a login that may only SELECT")
    return separate_source(plan), _SeparateSide(kind.as_source(destination, plan.source))


def schema_guard(plan: SyncPlan) -> SchemaGuard | None:
    """None where the log itself reports every change of a table's schema."""
    kind = source_kind(plan.source.kind)
    if not isinstance(kind, HidesSchemaChanges):
        return None
    return kind.open_guard(plan, PlatformOrigins(Database(), plan.sync))


def heartbeat_payload(source: SourcePlan) -> HeartbeatPayload | None:
    """None where the log itself reports every change of a table's schema."""
    kind = source_kind(source.kind)
    return kind.open_payload(source) if isinstance(kind, HidesSchemaChanges) else None


def sink(plan: SyncPlan, destination_name: str, *, frames: Frames | None = None) -> Sink:
    """`frames`: for a stream into a destination that needs them."""
    destination = plan.destination(destination_name)
    kind = sink_kind(destination.kind)
    decoder, held = _change_decoder(plan.held_by(destination_name)), plan.at_destination(destination_name)
    if frames is None:
        return kind.open_sink(held, destination, decoder=decoder)
    writing = power(kind, WritesFrames, to="be written through DataFrames")
    return writing.open_sink_over(held, destination, decoder=decoder, frames=frames)


def repair_sink(plan: SyncPlan, destination_name: str) -> Sink:
    """The sink that the stream has, opened for rows by their canonical texts. Refused where only Spark can write."""
    from seamline.values.canonical_rows import CanonicalDecoder

    if needs_frames(plan, destination_name):
        raise Refused(
            f"rows of {destination_name} are written by Spark alone: a repair cannot",
            hint="load the table again: run the DAG `<sync>__tables` with its name in `again`",
            sync=plan.sync,
        )
    destination = plan.destination(destination_name)
    kind = sink_kind(destination.kind)
    return kind.open_sink(plan.at_destination(destination_name), destination, decoder=CanonicalDecoder())


def _change_decoder(plan: SyncPlan) -> "ChangeDecoder":
    """Of row images as destinations hold them."""
    decoder = logged_kind(plan.source.kind).change_decoder(plan.source)
    transforms = {one.name: (one.definition, one.transform) for one in plan.tables if one.transform is not None}
    if not transforms:
        return decoder
    from seamline.transform.changes import TransformedChanges

    return TransformedChanges(decoder, transforms)


def log_patches(plan: SyncPlan) -> Callable[[TableChanges], TablePatch]:
    """What changes of the log make of a table's rows, as texts. `plan`: as a destination holds it."""
    from seamline.values.log_patch import patch_of

    decoder, tables = _change_decoder(plan), {entry.name: entry.target for entry in plan.tables}
    return lambda changes: patch_of(tables[changes.table], changes, decoder)


def log_batches(plan: SyncPlan) -> "Callable[[TableChanges], ChangeBatch]":
    """Changes of the log in the typed form, as a sink stages them. `plan`: as a destination holds it."""
    from seamline.values.changes import change_batch

    decoder, tables = _change_decoder(plan), {entry.name: entry.target for entry in plan.tables}
    return lambda changes: change_batch(tables[changes.table], changes, decoder)


def log_images(plan: SyncPlan, destination_name: str) -> LogImages:
    """The images of the log as rows of this destination, by their canonical texts."""
    from seamline.values.image_texts import ImageTexts

    return ImageTexts(_change_decoder(plan.held_by(destination_name)))


def needs_frames(plan: SyncPlan, destination_name: str) -> bool:
    """Whether the stream into this destination runs where a session of Spark is."""
    destination = plan.destination(destination_name)
    kind = sink_kind(destination.kind)
    return isinstance(kind, WritesFrames) and kind.needs_frames(destination)


def log_reader(plan: SyncPlan) -> LogReader:
    """Of the log, and of its archive where the source declares one and the log has no longer what is wanted."""
    if plan.source.archive is not None:
        from seamline.archive.opening import open_archived_reader

        return open_archived_reader(plan)
    from seamline.adapters.kafka.log_reader import open_log_reader

    return open_log_reader(plan)


def log_archive(source: SourcePlan, topic_id: str) -> AbstractContextManager[LogArchive]:
    """The archive of its log topic with this id. InvariantViolated where it declares none."""
    from seamline.archive.opening import open_archive

    return closing(open_archive(source, topic_id))


def capture_probe(plan: SyncPlan) -> CaptureProbe:
    from seamline.adapters.connect.debezium_capture import open_probe

    return open_probe(plan.source)


def capture_problems(plan: SyncPlan) -> tuple[Problem, ...]:
    """What keeps the capture from running at all."""
    from seamline.adapters.connect.debezium_capture import problems

    return problems(plan.source)


def archive_problems(plan: SyncPlan) -> tuple[Problem, ...]:
    """Why nothing could be archived of the source's log; nothing where it declares no archive."""
    if plan.source.archive is None:
        return ()
    from seamline.archive.opening import problems

    return problems(plan.source)


def budget_problems(plan: SyncPlan) -> tuple[Problem, ...]:
    """Why nobody could say how busy the source is; nothing where its budget does not ask for that."""
    try:
        PaceQuestion(plan.source, lambda: source(plan), lambda: None).load()
    except (ConfigError, Refused) as exc:
        return (Problem(exc.message, exc.hint),)
    return ()


def destination_problems(plan: SyncPlan, destination_name: str) -> tuple[Problem, ...]:
    destination = plan.destination(destination_name)
    return tuple(sink_kind(destination.kind).problems(plan.at_destination(destination_name), destination))


def misfits(plan: SyncPlan, destination_name: str) -> tuple[Misfit, ...]:
    """The live tables of a destination that would not take a load of the plan's tables, as far as its kind knows."""
    destination = plan.destination(destination_name)
    kind = sink_kind(destination.kind)
    if not isinstance(kind, KeepsLiveTables):
        return ()
    return tuple(kind.misfits(plan.at_destination(destination_name), destination))


def destination_views(plan: SyncPlan, destination_name: str, count: int) -> list[ReadView]:
    destination = plan.destination(destination_name)
    kind = power(sink_kind(destination.kind), ReadsBack, to="be compared with the source")
    return list(kind.open_live(plan.at_destination(destination_name), destination, count))


def findings(
    plan: SyncPlan, destination_name: str, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """What a stream met that its log did not promise, beyond `after`, and how far all of it goes."""
    destination = plan.destination(destination_name)
    kind = power(sink_kind(destination.kind), ReadsBack, to="be compared with the source")
    return kind.findings(destination, plan.stream_id(destination_name), after=after)


def with_level(plan: SyncPlan, found: Reconciliation) -> Reconciliation:
    """The comparison as it is kept: with what readers of its destination may rely on. What was written under another
    guarantee than the declared one stays what it is."""
    destination = plan.destination(found.destination)
    powers, is_of_cuts = sink_kind(destination.kind).powers, destination in plan.cuts_only
    under = powers.level_over_repeats if isinstance(source_kind(plan.source.kind), MayRepeat) else powers.level_under
    guarantee = str(found.evidence.get(WRITTEN_UNDER) or plan.guarantee)
    level = powers.level_of_cuts if is_of_cuts else under(guarantee)
    kept = level_evidence(found, level, guarantee=guarantee)
    return dataclasses.replace(found, evidence={**found.evidence, **kept})


def probes(source: SourcePlan) -> ProbeSource:
    """Probe tables of a certificate."""
    return power(source_kind(source.kind), Certifies, to="be certified").open_probes(source)


def probed(plan: SyncPlan, destination_name: str) -> ProbeDestination:
    """Where the probes of a certificate arrive."""
    destination = plan.destination(destination_name)
    return power(sink_kind(destination.kind), CertifiesArrivals, to="be certified").open_probed(
        plan.at_destination(destination_name), destination
    )


def cuts(destination: DestinationPlan) -> Cuts:
    """Close them after use."""
    return power(sink_kind(destination.kind), HoldsCuts, to="hold cuts").open_cuts(destination)


def pin_live(plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
    """Keep hold of its live tables for a run that makes a cut of them."""
    kind = power(sink_kind(destination.kind), CutsLiveTables, to="make cuts of its live tables")
    return kind.pin_live(plan.at_destination(destination.name), destination, count, run_id=run_id)


def published_view(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> ReadView:
    """Tables of a published cut, to be held against the source at `position`."""
    kind = power(sink_kind(destination.kind), HoldsCuts, to="hold cuts")
    return kind.open_published(plan.at_destination(destination.name), destination, tables, position=position)


def signed_rows(
    plan: SyncPlan, destination_name: str, take: WatchedTake, table: str, keys: Sequence[str]
) -> Mapping[str, Texts]:
    """`sync.late_postings.SignedRows`: rows of a version of a cut. Refused: it is not kept any more; ConfigError: its
    kind does not list tables of versions."""
    destination, day = plan.destination(destination_name), date.fromisoformat(take.business_date)
    kind = power(sink_kind(destination.kind), CarriesCutsOn, to="be asked for rows of a signed version")
    kept = kind.published_tables(destination, plan.sync, day, take.version)
    mine = [one for one in kept if one.table == table]
    if not mine:
        raise Refused(f"version {take.version} of {day} is not kept any more in {destination_name}", table=table)
    with closing(published_view(plan, destination, mine, position=take.cut_position)) as view:
        return view.rows(table, keys)


def destination_maintenance(destination: DestinationPlan) -> DestinationMaintenance:
    """Its ledgers, and what nobody needs any more there."""
    return sink_kind(destination.kind).open_maintenance(destination)


def cut_expiry(destination: DestinationPlan) -> CutStore:
    """Lets its cuts end."""
    return power(sink_kind(destination.kind), HoldsCuts, to="hold cuts").open_cut_expiry(destination)


def log_topics() -> LogTopics:
    """The log topics of the one Kafka."""
    from seamline.adapters.kafka.topics import open_log_topics

    return open_log_topics()


def followers() -> PlatformFollowers:
    return PlatformFollowers()


def reading_pacer(source: SourcePlan, run_id: str, *, say: Callable[[str], None] = _log.warning) -> Pacer:
    """Of a load or a night of this run: by the source's budget, and by what the streams of its log are behind."""
    ask = PaceQuestion(
        source, lambda: source_kind(source.kind).open_source(source), lambda: log_pressure(source, run_id)
    )
    return Pacer(source.name, ask, wait_max_s=(source.budget or SourceBudgetPlan()).wait_max_s, say=say)


def comparing_pacer(source: SourcePlan) -> Pacer | None:
    """Of a comparison, which keeps no log: by the source's budget alone. None where it has none."""
    if source.budget is None:
        return None
    ask = PaceQuestion(source, lambda: source_kind(source.kind).open_source(source), lambda: None)
    return Pacer(source.name, ask, wait_max_s=source.budget.wait_max_s)


def platform_expiry() -> PlatformExpiry:
    return PlatformExpiry(Database())


def platform_maintenance() -> PlatformMaintenance:
    return PlatformMaintenance(Database())


def platform() -> PlatformStore:
    return PlatformStore(Database())


def audit() -> PlatformAudit:
    return PlatformAudit(Database())


def audit_verifier() -> PlatformAuditVerifier:
    return PlatformAuditVerifier(
        lambda: open_session(application_name="seamline audit", statement_timeout_s=_VERIFY_TIMEOUT_S), audit_anchors
    )


def evidence(sync: str, day: date) -> BinaryIO:
    """The evidence of a business date (`platform/audit_export.py`) as a zip, in a file without a name that is gone when
    it is closed: a date may have gigabytes of files that people attached. Refused: no act is about the date."""
    # Before the view of the database begins: an anchor is younger than the entry that it names.
    anchors = audit_anchors()
    opened = open_session(application_name="seamline evidence", statement_timeout_s=_EVIDENCE_TIMEOUT_S)
    with closing(opened) as session, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / f"evidence-{sync}-{day}"
        try:
            export(session, sync=sync, day=day, folder=folder, anchors=anchors)
        except psycopg.Error as exc:
            raise translated(exc) from exc
        made: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (whoever reads it closes it)
        zip_into(made, folder)
        return made


def audit_anchors() -> tuple[Anchors, ...]:
    """Every place with anchors, as far as it goes now. ConfigError, TransientError: the topic of anchors."""
    known = settings.load()
    files = anchor_files(known.audit_anchors)
    if not known.audit_topic:
        return files
    kept = _lines(known.audit_topic)
    return (*files, AnchorTopic(kept, kept.end()))


def _lines(topic: str) -> Lines:
    from seamline.adapters.kafka.lines import KafkaLines

    return KafkaLines(topic)


def anchor_audit() -> str:
    """Write the head of the log of acts down outside of the database; says which and where.

    ConfigError: the folder of anchors cannot be written. ConfigError, TransientError: the topic of anchors; the file
    has its line then.
    """
    with closing(PlatformAudit(Database())) as log:
        head = log.head()
    if head is None:
        return "the log of acts is empty"
    known = settings.load()
    folder = known.audit_anchors
    try:
        places = [str(write_anchor(folder, head))]
    except OSError as exc:
        raise ConfigError(
            f"the log of acts cannot be anchored in {folder}: {exc.strerror}",
            hint="let this process write there, or name another folder by SEAMLINE_AUDIT_ANCHORS",
        ) from exc
    if known.audit_topic:
        places.append(send_anchor(_lines(known.audit_topic), head))
    return f"entry {head.number} of the log of acts is anchored in {' and '.join(places)}"


def baselines() -> PlatformBaselines:
    return PlatformBaselines(Database())


def breaks() -> PlatformBreaks:
    return PlatformBreaks(Database())


def work() -> PlatformWork:
    return PlatformWork(Database())


def attachments() -> PlatformAttachments:
    return PlatformAttachments(Database())


def notices() -> PlatformNotices:
    return PlatformNotices(Database())


def tolerances() -> PlatformTolerances:
    return PlatformTolerances(Database())


def late_inputs() -> PlatformLateInputs:
    return PlatformLateInputs(Database())


def late_postings() -> PlatformLatePostings:
    return PlatformLatePostings(Database())


def declared_changes() -> PlatformDeclaredChanges:
    return PlatformDeclaredChanges(Database())


def signatures() -> PlatformSignatures:
    return PlatformSignatures(Database())


def director() -> PlatformStreamDirector:
    return PlatformStreamDirector(Database())


def driver_runs() -> PlatformDriverRuns:
    return PlatformDriverRuns(Database(), holder=this_process())


def capture_registry() -> PlatformCaptureRegistry:
    return PlatformCaptureRegistry(Database())


def pruning_holds() -> PlatformPruningHolds:
    return PlatformPruningHolds(Database())


def failpoints() -> Failpoints | None:
    """What this process's environment arms; None is the rule."""
    from seamline.adapters.failpoints import from_environment

    return from_environment(settings.process_environment())
