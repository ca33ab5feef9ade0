"""What the databases of a deployment need once: roles, databases, grants, the platform's tables, Airflow's passwords.

The local stack does the same at `up`; in containers this is the `init` service: `python -m seamline.stack.provision`.
"""

import sys

from seamline import settings
from seamline.stack import credentials, mariadb, postgres
from seamline.stack.layout import Layout
from seamline.stack.server_settings import AIRFLOW_USERS


def migrate_platform() -> None:
    """Bring the platform database to this version's tables."""
    # Only here: Alembic takes a while to load, and every command imports this package.
    from seamline.adapters.platform import migrate

    migrate.upgrade()


def main() -> None:
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
