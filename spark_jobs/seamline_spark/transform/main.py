"""Transforms as JSON → what Spark's analysis makes of them, as JSON. Reads no data and knows no connection."""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from seamline.domain.catalogue import table_from_json
from seamline.domain.row_transform import transform_from_json, transform_to_json
from seamline_spark.session import open_session
from seamline_spark.transform.analysis import analysed


def main() -> int:
    """`[{"source": …, "transform": …}]` by standard input; the answer is the last line of standard output."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asked = json.load(sys.stdin)
    session = open_session("seamline transform_plan")
    try:
        answer = [_answer(session, one) for one in asked]
    finally:
        session.stop()
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _answer(session: SparkSession, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    source, transform = table_from_json(asked["source"]), transform_from_json(asked["transform"])
    found = analysed(session.newSession(), source, transform)
    about = {"table": source.name, "file": transform.file}
    if isinstance(found, list):
        return {**about, "mistakes": [asdict(one) for one in found]}
    return {**about, "transform": transform_to_json(found)}
