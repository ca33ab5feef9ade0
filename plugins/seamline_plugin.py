"""The one file of this folder that Airflow loads; all else is in the installed package `seamline_airflow`."""

from airflow.plugins_manager import AirflowPlugin

from seamline_airflow.deadline import RunCreated
from seamline_airflow.page.mount import page
from seamline_airflow.timetable import BusinessDayTimetable


class SeamlinePlugin(AirflowPlugin):
    name = "seamline"
    timetables = [BusinessDayTimetable]
    deadline_references = [RunCreated]
    fastapi_apps = [{"app": page, "url_prefix": "/seamline", "name": "Seamline"}]
    external_views = [
        {
            "name": "Reconciliation",
            "href": "seamline/page",
            "destination": "nav",
            "category": "browse",
            "url_route": "reconciliation",
        },
        {
            "name": "Reconciliation",
            "href": "seamline/page?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "dag_run",
            "url_route": "reconciliation-run",
        },
    ]
