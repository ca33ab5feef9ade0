"""Airflow's pools on the local stack, for syncs that were declared since its start and are onboarded by clicks.

A task whose pool is missing waits for ever, and no page of Airflow says why (3.3.2).
"""

import logging

from seamline import settings
from seamline.stack import airflow_pools
from seamline.stack.layout import Layout

log = logging.getLogger(__name__)


def make_pools_here() -> None:
    """Where this machine's own Airflow runs. One that does not answer is asked again at the next look."""
    layout = Layout(settings.load())
    # Written by `./seamline up` before it starts Airflow. Other deployments make pools by `seamline_airflow.pools`.
    if not layout.settings.are_servers_here or not layout.airflow_passwords.exists():
        return
    if not airflow_pools.are_made(layout):
        log.warning("Airflow did not answer, so pools of new syncs are not made yet")
