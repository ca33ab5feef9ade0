"""The DAGs of every declared sync, and the one that lets go what none of them needs any more. Wiring only: Airflow
reads this file, people write include/syncs/.

A declaration with faults is shown by declaration_faults.py, so that it does not take the other syncs away.
"""

from seamline.plan.compile import compile_plan
from seamline.spec.load import load_each
from seamline_airflow.dag_factory import (
    declarations_folder,
    declared_syncs,
    maintenance_dag,
    requested_sync,
    sync_dags,
)

# Airflow reads a file before its turn only where it knows a DAG of it. This one is there before the first sync is
# declared, so that `onboard` can ask for that.
if requested_sync() in (None, "seamline"):
    maintenance = maintenance_dag()

# A task's process reads the files of its sync only. The DAG processor has read all of them, or there is no such DAG.
for plan in declared_syncs(load_each(declarations_folder(), alone=requested_sync()), compile_plan).plans:
    globals().update(sync_dags(plan))
