"""What a stream has last found a source's table to be is kept in the platform database."""

from contextlib import closing
from dataclasses import replace

from seamline.domain.catalogue import Table
from seamline.platform.database import Database
from seamline.platform.origins import PlatformOrigins
from tests.integration.platform_database import Server
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server


def test_what_was_seen_of_a_table_is_kept_for_each_of_its_loads(server: Server) -> None:
    loaded = Table("entry", (), origin="as loaded")
    with closing(PlatformOrigins(Database(server.open), "settlement")) as origins:
        assert origins.read([loaded]) == {}
        for seen in ("with a default", "rewritten"):
            origins.keep(loaded, seen)
        assert origins.read([loaded]) == {"entry": "rewritten"}
        again = replace(loaded, origin="loaded again")
        assert origins.read([again]) == {}
        origins.keep(again, "altered")
        # Each of two destinations goes by its own load.
        assert [origins.read([one]) for one in (loaded, again)] == [{"entry": "rewritten"}, {"entry": "altered"}]
    with closing(PlatformOrigins(Database(server.open), "treasury")) as others:
        assert others.read([loaded]) == {}
