"""Who may see what. The one place that uses Airflow's internal security API; a contract test holds it (3.3.2).

A FastAPI app of a plugin is mounted outside Airflow's own login: without these dependencies anybody could read it.
"""

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from airflow.sdk.configuration import conf
from fastapi import Depends, HTTPException

from seamline.domain.person import person_of

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


def users() -> tuple[str, ...] | None:
    """The names of all who can sign in, as acts name them; None where Airflow does not say who they are. Its interface
    of auth managers has no list of users: the simple one reads them from a setting, others ask a directory of their
    own, and one that makes everybody an administrator knows nobody by name."""
    manager = get_auth_manager()
    if not isinstance(manager, SimpleAuthManager) or conf.getboolean("core", "simple_auth_manager_all_admins"):
        return None
    return tuple(sorted(person_of(one.get_name()) for one in manager.get_users()))
