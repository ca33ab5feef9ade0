"""What the databases of a deployment need once: roles, databases, grants, the platform's tables, Airflow's passwords.

The local stack does the same at `up`; in containers this is the `init` service: `python -m seamline.stack.provision`.
"""

import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.stack import credentials, mariadb, postgres
from seamline.stack.layout import Layout
from seamline.stack.server_settings import AIRFLOW_USERS

AIRFLOW_SECRETS = ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY")


def migrate_platform() -> None:
    """Bring the platform database to this version's tables."""
    # Only here: Alembic takes a while to load, and every command imports this package.
    from seamline.adapters.platform import migrate

    migrate.upgrade()


def require_secrets(environment: Mapping[str, str]) -> None:
    """Refuse a deployment whose .env lacks a secret: an empty password would open a database to everybody.

    Raises `ConfigError` with the names of all variables that lack theirs.
    """
    missing = [name for name in AIRFLOW_SECRETS if not environment.get(name)]
    for name, value in environment.items():
        known = urlsplit(value) if name.startswith("SEAMLINE_CONNECTION_") else None
        if known is not None and known.username and not known.password:
            missing.append(name)
    if missing:
        raise ConfigError(
            f"without their secrets: {', '.join(sorted(missing))}", hint="sh deploy/new-env.sh writes .env, once"
        )


def main() -> None:
    require_secrets(settings.process_environment())
    layout = Layout(settings.load())
    postgres.provision(layout.settings)
    mariadb.provision(layout.settings)
    migrate_platform()
    made = credentials.load_or_make(layout)
    credentials.write_airflow_passwords(layout, made)
    for user in AIRFLOW_USERS:
        sys.stdout.write(f"Airflow user {user}: {made[f'airflow_user_{user}']}\n")


if __name__ == "__main__":
    main()
