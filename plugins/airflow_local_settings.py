"""Airflow's cluster policy; Airflow imports this module by its name, from the folder of the plugins."""

from seamline_airflow.policy import task_instance_mutation_hook

__all__ = ["task_instance_mutation_hook"]
