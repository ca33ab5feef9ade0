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
    from seamline.platform import migrate

    migrate.upgrade()


def main() -> None:
    layout = Layout(settings.load())
    postgres.provision(layout.settings)
    mariadb.provision(layout.settings)
    migrate_platform()
    made = credentials.load_or_make(layout)
    credentials.write_airflow_passwords(layout, made)
    # Not the passwords: what a container prints is kept, and read by whoever may read its log.
    sys.stdout.write(f"the passwords of Airflow's {', '.join(AIRFLOW_USERS)} are in {layout.airflow_passwords}\n")


if __name__ == "__main__":
    main()
