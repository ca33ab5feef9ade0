"""The statements that the owner of a database runs once: three roles, each with the least it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.marker import create_statement
from seamline.databases.mysql.read import relation_at
from seamline.domain.table_places import TablePlace
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan


@dataclass(frozen=True, slots=True)
class Rights:
    """In what the statements of a server differ. `remarks`: comments at the top, and above the rights of the capture;
    `capture`: what is granted to it ON *.*; `reader`: by `snapshot.lock` a remark, and what is granted to it;
    `replica`: what shows how far it is behind as a replica."""

    server: str
    remarks: tuple[Sequence[str], Sequence[str]]
    capture: Sequence[str]
    reader: Mapping[str, tuple[str, Sequence[str]]]
    replica: str

    def script_of(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        """`grant_script` of a plan's source, with what its budget asks for."""
        if not source.has_log:
            return self._read_script(source, tables, logins.reader) + self._of_budget(source, logins.reader)
        script = self.grant_script(
            source.database,
            tables,
            logins=logins,
            marker_table=source.marker_table,
            snapshot_lock=source.snapshot_lock,
            databases=source.databases,
        )
        return script + self._of_budget(source, logins.reader)

    def _of_budget(self, source: SourcePlan, reader: str) -> str:
        if source.budget is None or not source.budget.replica_lag_max_s:
            return ""
        return (
            "\n-- `budget.replica_lag_max`: how far this server is behind, where it is a replica.\n"
            f"GRANT {self.replica} ON *.* TO {account(reader)};\n"
        )

    def grant_script(
        self,
        database: str,
        tables: Sequence[str],
        *,
        logins: Logins,
        marker_table: str = "seamline_marker",
        snapshot_lock: str = "none",
        databases: Sequence[str] = (),
    ) -> str:
        """The whole script; `tables` as the capture calls them, `databases` beside `database`. Passwords are
        placeholders: they never pass through Seamline."""
        listed = [relation_at(TablePlace.declared(table, database)) for table in tables]
        marker = relation_at(TablePlace(database, marker_table))
        capture, reader = account(logins.capture), account(logins.reader)
        at_the_top, of_capture = self.remarks
        remark, of_reader = self.reader.get(snapshot_lock, ("", ()))
        lines = [
            f"-- {self.server} source, database {database}. Replace the passwords; a login that is there already keeps"
            " its own.",
            *at_the_top,
            *(
                f"CREATE USER IF NOT EXISTS {account(name)} IDENTIFIED BY '<password of {name}>';"
                for name in sorted({logins.capture, logins.reader, logins.marker})
            ),
            "",
            "-- The marker table: its rows prove order and progress in the log.",
            f"USE {quoted(database)};",
            f"{create_statement(marker_table)};",
            "",
            "-- capture: the connector reads the binlog, and at its first start the structure of every table of the",
            *of_capture,
            *(f"GRANT {right} ON *.* TO {capture};" for right in self.capture),
            *(f"GRANT SELECT ON {database_pattern(one)}.* TO {capture};" for one in (database, *databases)),
            "",
            "-- reader: snapshots and reconciliation.",
            *(f"GRANT SELECT ON {table} TO {reader};" for table in [*listed, marker]),
            *([remark] if remark else []),
            *(f"GRANT {right} TO {reader};" for right in of_reader),
            "",
            "-- marker: rows of one table, nothing else; it deletes its own old ones.",
            f"GRANT SELECT, INSERT, DELETE ON {marker} TO {account(logins.marker)};",
        ]
        return "\n".join(lines) + "\n"

    def _read_script(self, source: SourcePlan, tables: Sequence[str], reader: str) -> str:
        """Of a source without a log: one login, which may SELECT."""
        places = [relation_at(TablePlace.declared(table, source.database)) for table in tables]
        lines = [
            f"-- {self.server} source without a log, database {source.database}. Replace the password. It reads, and"
            " needs nothing else.",
            f"CREATE USER IF NOT EXISTS {account(reader)} IDENTIFIED BY '<password of {reader}>';",
            *(f"GRANT SELECT ON {place} TO {account(reader)};" for place in places),
        ]
        return "\n".join(lines) + "\n"


def account(login: str) -> str:
    """A login from anywhere, as a statement names it."""
    return "'" + login.replace("\\", "\\\\").replace("'", "''") + "'@'%'"


def database_pattern(database: str) -> str:
    """In a grant on a database `_` and `%` are wild unless escaped."""
    return quoted(database.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%"))


def statements_of(script: str) -> list[str]:
    """What a client executes one after the other; comments stand in lines of their own."""
    lines = (line for line in f"{script}\n".splitlines(keepends=True) if not line.startswith("--"))
    return [statement for part in "".join(lines).split(";\n") if (statement := part.strip())]
