"""Transforms as JSON → what Spark's analysis makes of them, as JSON. Reads no data and knows no connection."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from seamline.domain.catalogue import Table, table_from_json
from seamline.domain.cut_job import CutJob, job_from_json
from seamline.domain.row_transform import transform_from_json, transform_to_json
from seamline_spark.session import open_session
from seamline_spark.transform.analysis import analysed
from seamline_spark.transform.job import AnalysedJob, analysed_job


def main() -> int:
    """`{"transforms": [{"source": …, "transform": …}], "jobs": [{"name": …, "job": …, "tables": […],
    "transforms": {…}}]}` by standard input; the answer is the last line of standard output, a list with one entry for
    each of them, in this order. `transforms` of a job: by table the file by which it is held where the job runs."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asked = json.load(sys.stdin)
    session = open_session("seamline transform_plan")
    try:
        answer = _answers(session, asked)
    finally:
        session.stop()
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _answers(session: SparkSession, asked: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """A job reads its tables as destinations hold them. It is not looked at where the transform of one is mistaken."""
    answers = [_answer(session, one) for one in asked["transforms"]]
    made = {
        (one["table"], one["file"]): transform_from_json(one["transform"]).planned
        for one in answers
        if "transform" in one
    }
    for one in asked["jobs"]:
        held = set(one["transforms"].items())
        if held <= made.keys():
            tables = [
                made.get((table.name, one["transforms"].get(table.name, "")), table)
                for table in map(table_from_json, one["tables"])
            ]
            answers.append(_answer_of_job(session, one["name"], job_from_json(one["job"]), tables))
    return answers


def _answer_of_job(session: SparkSession, name: str, job: CutJob, tables: Sequence[Table]) -> Mapping[str, Any]:
    found = analysed_job(session, name, job, tables)
    mistakes = [] if isinstance(found, AnalysedJob) else found
    return {"table": name, "file": job.file, "mistakes": [asdict(one) for one in mistakes]}


def _answer(session: SparkSession, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    source, transform = table_from_json(asked["source"]), transform_from_json(asked["transform"])
    found = analysed(session.newSession(), source, transform)
    about = {"table": source.name, "file": transform.file}
    if isinstance(found, list):
        return {**about, "mistakes": [asdict(one) for one in found]}
    return {**about, "transform": transform_to_json(found)}
