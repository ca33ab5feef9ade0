"""Broken declarations as an import error of their own. In the file of the DAGs it would stop all other syncs: Airflow
3.3.2 takes every DAG of a file with an import error out of scheduling.
"""

from seamline.plan.compile import compile_plan
from seamline.spec.load import load_each
from seamline_airflow.dag_factory import declarations_folder, declared_syncs, raise_faults

raise_faults(declared_syncs(load_each(declarations_folder()), compile_plan))
