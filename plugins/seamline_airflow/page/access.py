"""Who may see what. The one place that uses Airflow's internal security API; a contract test holds it (3.3.2).

A FastAPI app of a plugin is mounted outside Airflow's own login: without these dependencies anybody could read it.
"""

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from fastapi import Depends, HTTPException

User = Annotated[Any, Depends(get_user)]
# On the whole app: signed in, and allowed to see plugins. Each sync is asked for besides.
SIGNED_IN = [Depends(get_user), Depends(requires_access_view(AccessView.PLUGINS))]


def may_see(user: Any, sync: str) -> bool:
    """Whoever may read the sync's reconcile DAG may read its reports."""
    details = DagDetails(id=f"{sync}__reconcile")
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=details, user=user))


def require(user: Any, sync: str) -> None:
    if not may_see(user, sync):
        raise HTTPException(status_code=403, detail="Forbidden")
