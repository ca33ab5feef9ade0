"""The DAGs of every declared sync. Wiring only: Airflow reads this file, people write include/syncs/."""

from seamline.plan.compile import compile_plan
from seamline.spec.load import Declarations, load_each
from seamline_airflow.dag_factory import declarations_folder, requested, sync_dags

for file, declared in load_each(declarations_folder()).items():
    # A file with faults is shown by declaration_faults.py, so that it does not take the other syncs away.
    if isinstance(declared, Declarations) and requested(file.stem):
        globals().update(sync_dags(compile_plan(declared, file.stem)))
