"""What a lake needs of the local stack: a database for its catalogue with two logins, and a folder for its files."""

from seamline.adapters.connections import resolve
from seamline.sinks.lake.grants import grant_statements
from seamline.stack import credentials, postgres
from seamline.stack.layout import Layout

DATABASE = "lake"
PUBLISHER, WRITER = "lake", "lake_writer"


def provision(layout: Layout) -> None:
    """Make what is not there yet, while PostgreSQL runs. Repeating it changes nothing."""
    credentials.add_postgres_login(layout, PUBLISHER, login="lake_publisher", database=DATABASE)
    credentials.add_postgres_login(layout, WRITER, login="lake_writer", database=DATABASE)
    publisher, writer = (resolve(connection_id, within=layout.settings) for connection_id in (PUBLISHER, WRITER))
    grants = grant_statements(DATABASE, publisher=publisher.login, writer=writer.login)
    postgres.provision_destination(layout.settings, publisher, writer, grants=grants)
    layout.lake.mkdir(exist_ok=True)
