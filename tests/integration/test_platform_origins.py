"""What a stream has last found a source's table to be is kept in the platform database."""

from contextlib import closing
from dataclasses import replace

from seamline.domain.catalogue import Table
from seamline.platform.database import Database
from seamline.platform.origins import PlatformOrigins
from tests.integration.platform_database import Server
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server


def test_what_was_seen_of_a_table_is_kept_until_it_is_loaded_again(server: Server) -> None:
    loaded = Table("entry", (), origin="as loaded")
    with closing(PlatformOrigins(Database(server.open), "settlement")) as origins:
        assert origins.read([loaded]) == {}
        for seen in ("with a default", "rewritten"):
            origins.keep(loaded, seen)
        assert origins.read([loaded]) == {"entry": "rewritten"}
        assert origins.read([replace(loaded, origin="loaded again")]) == {}
    with closing(PlatformOrigins(Database(server.open), "treasury")) as others:
        assert others.read([loaded]) == {}
