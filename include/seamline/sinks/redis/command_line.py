"""What the command line asks a Redis: whether it takes the login, is fit for rows, and lets it write the keys of a
destination."""

from contextlib import closing

from seamline.adapters.connections import Connection
from seamline.domain.errors import SeamlineError
from seamline.domain.server_found import MAKES, ServerFound, Use, keeps


class Redis:
    """`kinds.command_line.KeepsNamespaces`."""

    def examined(self, known: Connection) -> ServerFound:
        from seamline.sinks.redis.preflight import of_settings
        from seamline.sinks.redis.session import open_session, translated

        with closing(open_session(known, rows_max=0)) as session, translated("look at the server"):
            version = session.client.info("server").get("redis_version", "?")
            unfit = tuple(what for what, _, is_fatal in of_settings(session) if is_fatal)
        is_clear = known.extra.get("sslmode", "disable") == "disable"
        return ServerFound(
            f"Redis {version}", "in the clear" if is_clear else "encrypted", uses=(Use(MAKES, unfit=unfit),)
        )

    def namespace(self, known: Connection, namespace: str) -> Use:
        from seamline.sinks.redis.keys import Keyspace
        from seamline.sinks.redis.scripts import RIGHTS
        from seamline.sinks.redis.session import open_session, translated

        try:
            with closing(open_session(known, rows_max=0)) as session, translated("ask for rights"):
                lacking = session.run(RIGHTS, [Keyspace(namespace).own("ledger")])
        except SeamlineError as exc:
            return Use(keeps(namespace), unfit=(exc.message,))
        return Use(keeps(namespace), missing=(lacking.decode(),) if lacking else ())


CLIENT = Redis()
