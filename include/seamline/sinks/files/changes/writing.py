"""Files of changes on their way into a place."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.position import Position, position_to_json
from seamline.plan.model import DestinationPlan
from seamline.sinks.files.changes.change_files import write_changes
from seamline.sinks.files.changes.log import ChangesLog
from seamline.sinks.files.changes.options import changes_options
from seamline.sinks.files.changes.rows import CommitMarks
from seamline.sinks.files.changes.state import ChangeFile, HeldTable
from seamline.sinks.files.options import options_of


@dataclass(frozen=True, slots=True)
class Writing:
    log: ChangesLog
    destination: DestinationPlan

    def marks(self, commit: int, position: str, committed_ms: int) -> CommitMarks:
        return CommitMarks(commit, position, committed_ms)

    def file(self, held: HeldTable, changes: Iterable[pa.RecordBatch], marks: CommitMarks) -> ChangeFile | None:
        """A file that nothing names yet; None where there are no changes."""
        path = self.log.path(held.definition.name, held.format)
        made = write_changes(self.log.store, path, held, changes)
        # A stream that was behind writes today what was committed long ago: nobody has read it before today.
        through_ms = max(marks.committed_ms, int(time.time() * 1000))
        return made and replace(made, commits=(marks.commit, marks.commit), through_ms=through_ms)

    def begun(self, table: Table) -> HeldTable:
        """A table without a change, in the form that is declared now."""
        options = options_of(self.destination)
        has_before = table.is_keyed and changes_options(self.destination).before_image
        definition = replace(table, rows_estimate=0, origin="")
        return HeldTable(definition, options.format, options.dialect, has_before=has_before)


def position_text(position: Position) -> str:
    return json.dumps(position_to_json(position), ensure_ascii=False)
