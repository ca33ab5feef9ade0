"""What the command line asks a server of files: whether it takes the login, and what it shows of a declared place."""

from contextlib import closing

from seamline.adapters.connections import Connection
from seamline.domain.errors import SeamlineError
from seamline.domain.server_found import ServerFound, Use, lists
from seamline.files.stores.opening import opened


class _Places:
    def place(self, known: Connection, location: str) -> Use:
        role = lists(location)
        try:
            with closing(opened(location, known)) as store:
                store.names("")
        except SeamlineError as exc:
            return Use(role, unfit=(exc.message,))
        return Use(role)


class Sftp(_Places):
    """`kinds.command_line.ReachesPlaces`; its client is loaded once a server is asked, as of those below."""

    def examined(self, known: Connection) -> ServerFound:
        from seamline.files.stores import sftp

        return sftp.examined(known)


class Ftp(_Places):
    def examined(self, known: Connection) -> ServerFound:
        from seamline.files.stores import ftp

        return ftp.examined(known)


class Hdfs(_Places):
    def examined(self, known: Connection) -> ServerFound:
        from seamline.files.stores import hdfs

        return hdfs.examined(known)


class S3(_Places):
    def examined(self, known: Connection) -> ServerFound:
        from seamline.files.stores import s3

        return s3.examined(known)


SFTP, FTP, HDFS, S3_CLIENT = Sftp(), Ftp(), Hdfs(), S3()
