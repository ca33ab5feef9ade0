"""What the command line asks a Hive metastore, by the Thrift calls of the catalogues that use one."""

from contextlib import closing

from seamline.adapters.connections import Connection
from seamline.domain.server_found import ServerFound

# A person waits.
_PATIENCE_S = 15.0


class HiveMetastore:
    """`kinds.command_line.ServerClient`."""

    def examined(self, known: Connection) -> ServerFound:
        from seamline.sinks.lake.thrift_metastore import opened, translated

        client, transport = opened(known, patience_s=_PATIENCE_S)
        with closing(transport), translated(f"ask connection `{known.connection_id}` for its databases"):
            databases = client.get_all_databases()
        return ServerFound(f"a Hive metastore, databases: {len(databases)}", "in the clear and without a login")


CLIENT = HiveMetastore()
