"""The DAGs of every declared sync. Wiring only: Airflow reads this file, people write include/syncs/.

A declaration with faults is shown by declaration_faults.py, so that it does not take the other syncs away.
"""

from seamline.plan.compile import compile_plan
from seamline.spec.load import load_each
from seamline_airflow.dag_factory import declarations_folder, declared_syncs, requested_sync, sync_dags

# A task's process reads the files of its sync only. The DAG processor has read all of them, or there is no such DAG.
for plan in declared_syncs(load_each(declarations_folder(), alone=requested_sync()), compile_plan).plans:
    globals().update(sync_dags(plan))
