"""What a stream of PostgreSQL does where its tables are altered, as tests wait for it."""

from tests.integration.captured_postgres import PostgresCaptured
from tests.integration.streamed import Streamed


def has_stopped(stream: Streamed, bank: PostgresCaptured) -> bool:
    """A connector that read the catalogue before the alteration was visible fails at its first value; the watch starts
    it again."""
    status = bank.connector.status()
    if status is not None and status.is_failed:
        bank.connector.start()
    return stream.error is not None
