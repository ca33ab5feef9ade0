"""The one plugin of this folder; all else is in the installed package `seamline_airflow`. `airflow_local_settings.py`
beside it is no plugin: Airflow imports it by its name."""

from airflow.plugins_manager import AirflowPlugin

from seamline_airflow.deadline import RunCreated
from seamline_airflow.page.mount import URL_PREFIX, page
from seamline_airflow.timetable import BusinessDayTimetable


class SeamlinePlugin(AirflowPlugin):
    name = "seamline"
    timetables = [BusinessDayTimetable]
    deadline_references = [RunCreated]
    fastapi_apps = [{"app": page, "url_prefix": URL_PREFIX, "name": "Seamline"}]
    external_views = [
        {
            "name": "Reconciliation",
            "href": "seamline/page",
            "destination": "nav",
            # No `url_route`: it opens in a tab of its own. Airflow's frame lets no link out of it (3.3.2).
            "category": "browse",
        },
        {
            "name": "Reconciliation",
            "href": "seamline/page?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "dag_run",
            "url_route": "reconciliation-run",
        },
        {
            "name": "Reconciliation",
            "href": "seamline/page?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "task_instance",
            "url_route": "reconciliation-task",
        },
        {
            "name": "Reconciliation",
            "href": "seamline/page?dag_id={DAG_ID}",
            "destination": "dag",
            "url_route": "reconciliation-dag",
        },
    ]
