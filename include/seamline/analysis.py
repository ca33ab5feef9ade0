"""Transforms of a plan's tables and derived tables, analysed by Spark in a process of its own: this side never imports
it, and a DAG that is parsed starts none."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seamline import settings
from seamline.domain.catalogue import Table, table_to_json
from seamline.domain.errors import TransientError
from seamline.domain.row_transform import Analysed, RowTransform, transform_from_json, transform_to_json
from seamline.plan.model import SyncPlan
from seamline.ports import Problem, Survey
from seamline.spec.faults import Fault
from seamline.spec.transforms import file_of

_JOB = "spark_jobs/transform_plan.py"
# It takes eight seconds, nearly all of them for the start of a JVM.
_WITHIN_S = 300
_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class TransformMistake:
    """Of the transform of a table, or of a derived table: by file and line."""

    table: str
    fault: Fault

    @property
    def problem(self) -> Problem:
        return Problem(self.fault.place_and_cause, self.fault.cure, table=self.table)


def analysed(plan: SyncPlan, found: Survey) -> tuple[Analysed, Sequence[TransformMistake]]:
    """Each transform of any destination with its target, and what is wrong with the others and with jobs, by file and
    line. A job is analysed over the tables of each destination that holds them as no other does.

    TransientError: Spark did not answer.
    """
    tables = {table.name: table for table in found.tables}
    held = [_transforms_at(plan, destination.name, tables) for destination in plan.destinations]
    wanted = {(name, one.file): one for each in held for name, one in each.items()}
    asked = [
        {"source": table_to_json(tables[name]), "transform": transform_to_json(one)}
        for (name, _), one in wanted.items()
    ]
    jobs: list[Mapping[str, Any]] = []
    for one in plan.derived:
        # A parked table is not asked for, and a table that is not there is reported for itself.
        if one.job is None or not tables.keys() >= set(one.bases):
            continue
        for each in held:
            files = {name: transform.file for name, transform in each.items() if name in one.bases}
            bases = [table_to_json(tables[base]) for base in one.bases]
            job = {"name": one.name, "job": asdict(one.job), "tables": bases, "transforms": files}
            jobs += [job] if job not in jobs else []
    if not asked and not jobs:
        return {}, ()
    answer = _answer(json.dumps({"transforms": asked, "jobs": jobs}))
    made = {(one["table"], one["file"]): transform_from_json(one["transform"]) for one in answer if "transform" in one}
    mistakes = [_mistake(one, mistake) for one in answer for mistake in one.get("mistakes", ())]
    return made, list(dict.fromkeys(mistakes))


def _transforms_at(plan: SyncPlan, destination: str, tables: Mapping[str, Table]) -> Mapping[str, RowTransform]:
    """By table how this destination holds it, where that is not as the source does."""
    held = plan.held_by(destination).tables
    return {one.name: one.transform for one in held if one.transform is not None and one.name in tables}


def _answer(question: str) -> list[Mapping[str, Any]]:
    command = [sys.executable, str(settings.load().root / _JOB)]
    try:
        done = subprocess.run(command, input=question, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise TransientError(f"Spark did not analyse the transforms within {_WITHIN_S} s") from exc
    if done.returncode:
        last = "; ".join(done.stderr.strip().splitlines()[-_SHOWN_LINES:])
        raise TransientError(f"Spark did not analyse the transforms: {last}", hint="is a Java there for Spark?")
    answer: list[Mapping[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _mistake(of: Mapping[str, Any], mistake: Mapping[str, Any]) -> TransformMistake:
    file = file_of(of["file"], settings.load().declarations)
    return TransformMistake(of["table"], Fault(file, mistake["line"], "", mistake["what"], mistake["cure"]))
