"""The users that Airflow's own settings name. Those of another auth manager only that one knows."""

import configparser
from pathlib import Path

from seamline import settings
from seamline.stack.layout import Layout
from seamline.stack.server_settings import AIRFLOW

_MANAGER, _USERS, _ALL_ADMINS = "auth_manager", "simple_auth_manager_users", "simple_auth_manager_all_admins"
_SIMPLE = "SimpleAuthManager"


def known_users(layout: Layout) -> frozenset[str]:
    """Their ids, by the variables of this process, Airflow's file of settings, and those of the local stack; none where
    they cannot be known from here."""
    if not (_setting(layout, _MANAGER) or _SIMPLE).endswith(_SIMPLE):
        return frozenset()
    if _setting(layout, _ALL_ADMINS).lower() in ("true", "t", "1"):
        return frozenset()
    entries = (entry.partition(":")[0].strip() for entry in _setting(layout, _USERS).split(","))
    return frozenset(filter(None, entries))


def _setting(layout: Layout, name: str) -> str:
    """Of Airflow's section `core`; "" where it is not set."""
    variables, variable = settings.process_environment(), f"AIRFLOW__CORE__{name.upper()}"
    if variable in variables:
        return variables[variable]
    is_local = layout.settings.are_servers_here and "AIRFLOW_HOME" not in variables
    if is_local and variable in AIRFLOW:
        return AIRFLOW[variable]
    home = layout.airflow if is_local else Path(variables.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    parser = configparser.RawConfigParser(strict=False)
    parser.read(home / "airflow.cfg", encoding="utf-8")
    return parser.get("core", name, fallback="").strip()
