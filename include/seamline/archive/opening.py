"""The archive of a source's log, by its plan."""

import io
import secrets
from contextlib import closing
from functools import partial

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.log_reader import open_log_reader
from seamline.adapters.kafka.raw_log import KafkaRawLog
from seamline.archive.manifest import DRAFTS
from seamline.archive.reader import ArchivedLogReader
from seamline.archive.stored import StoredArchive
from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.files.stores.opening import open_store
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.ports import Problem


def open_archive(source: SourcePlan, topic_id: str) -> StoredArchive:
    """Of the log topic with this id. Its tables have the names of the source: several syncs may read it."""
    if source.archive is None:
        raise InvariantViolated(f"source {source.name} declares no archive")
    return StoredArchive(
        open_store(source.archive.location, source.archive.connection),
        source.log_topic,
        topic_id,
        log=KafkaRawLog(client_settings(resolve("kafka")), source.log_topic),
        # Of no sync's tables alone: a record names its own.
        open_decoder=lambda: logged_kind(source.kind).decoder(source.shared, ()),
    )


def problems(source: SourcePlan) -> tuple[Problem, ...]:
    """Why its place cannot be written to."""
    archive = source.archive
    if archive is None:
        return ()
    try:
        with closing(open_store(archive.location, archive.connection)) as store:
            probe = f"{source.log_topic}/{DRAFTS}/{secrets.token_hex(8)}"
            store.write(probe, io.BytesIO(b"seamline"))
            store.remove(probe)
    except FileNotFoundError as exc:
        return (Problem(f"the archive of source {source.name}: {exc}", "see whether the bucket is there"),)
    except SeamlineError as exc:
        return (Problem(f"the archive of source {source.name}: {exc.message}", exc.hint),)
    return ()


def open_archived_reader(plan: SyncPlan) -> ArchivedLogReader:
    return ArchivedLogReader(open_log_reader(plan), partial(open_archive, plan.source))
