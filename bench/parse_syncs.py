"""How long Airflow's DAG processor works on 200 declared syncs, and on a broken one among them.

`.seamline/env/venv/bin/python -m bench.parse_syncs`; no server is needed. Declarations of so many syncs are written to
a folder of their own; then `dags/syncs.py` is imported as the processor imports it, in a process of its own, and its
DAGs are serialized. Goal: 5 s for all, by the processor's own CPU time, so that a busy machine says the same.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seamline import settings

GOAL_S = 5.0
_SYNC = """\
sync: bank_{n}
source: bank_{n}
destinations: [warehouse_{n}]
tables:
  - account
  - {{name: ledger_entry, business_date: {{column: booked_at, as: instant}}}}
  - {{name: payment_order, business_date: {{column: business_date, as: date}}}}
nightly: {{timezone: Asia/Shanghai, calendars: [bank], verdict_by: "07:00", ready_when: {{file: "{n}/{{date}}.ok"}}}}
reconcile:
  control_totals:
    - {{table: ledger_entry, sum: amount, by: [currency]}}
"""
_SOURCE = "source: bank_{n}\nkind: mariadb\nconnection: bank_{n}\ndatabase: bank\n"
_DESTINATION = "destination: warehouse_{n}\nkind: postgres\nconnection: warehouse\nschema: bank_{n}\n"
_CALENDAR = """\
calendar: bank
from: 2020-01-01
until: 2035-12-31
holidays:
{holidays}
"""
_PARSE = """
import importlib.util, json, sys, time
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
import seamline_airflow.dag_factory
began = time.process_time()
spec = importlib.util.spec_from_file_location("syncs", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
built = time.process_time()
dags = [one for one in vars(module).values() if isinstance(one, DAG)]
for one in dags:
    DagSerialization.to_dict(one)
print(json.dumps({"dags": len(dags), "built_s": built - began, "serialized_s": time.process_time() - built}))
"""


def write(folder: Path, syncs: int) -> None:
    for kind in ("sources", "destinations", "syncs", "calendars", "expectations"):
        (folder / kind).mkdir(parents=True)
    days = "\n".join(f"  - {year}-{month:02}-01" for year in range(2020, 2036) for month in (1, 5, 10))
    (folder / "calendars/bank.yaml").write_text(_CALENDAR.format(holidays=days), encoding="utf-8")
    for n in range(syncs):
        (folder / f"sources/bank_{n}.yaml").write_text(_SOURCE.format(n=n), encoding="utf-8")
        (folder / f"destinations/warehouse_{n}.yaml").write_text(_DESTINATION.format(n=n), encoding="utf-8")
        (folder / f"syncs/bank_{n}.yaml").write_text(_SYNC.format(n=n), encoding="utf-8")


def parsed(folder: Path, file: str) -> dict[str, float]:
    """What a process of its own says of a DAG file."""
    root = settings.load().root
    environment = {
        **settings.process_environment(),
        "SEAMLINE_DECLARATIONS": str(folder),
        "AIRFLOW_HOME": str(folder.parent),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(root / "plugins"),
    }
    made = subprocess.run(
        [sys.executable, "-c", _PARSE, str(root / "dags" / file)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SystemExit(made.stderr[-2000:])
    found: dict[str, float] = json.loads(made.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--syncs", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "include"
        write(folder, arguments.syncs)
        began = time.perf_counter()
        found = parsed(folder, "syncs.py")
        whole_s = time.perf_counter() - began
        (folder / "syncs/bank_7.yaml").write_text("sync: bank_7\nsurce: bank_7\n", encoding="utf-8")
        broken = parsed(folder, "syncs.py")
    sys.stdout.write(
        f"{arguments.syncs} syncs, {found['dags']:.0f} DAGs: read, checked and built in {found['built_s']:.2f} s,"
        f" serialized in {found['serialized_s']:.2f} s; the process in all {whole_s:.1f} s\n"
        f"with a broken one: {broken['dags']:.0f} DAGs in {broken['built_s']:.2f} s\n"
    )
    return 0 if found["built_s"] <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
