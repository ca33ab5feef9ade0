"""Logins in the scripts that owners of databases run."""

from seamline.databases.postgres.canonical import quoted, text_literal


def made_login(login: str, *, may: str = "") -> str:
    """Makes it; one that is there keeps its password, and the rest of the script runs. The password is a placeholder:
    it never passes through Seamline. `may`: an attribute that it has then in either case, as REPLICATION."""
    password = text_literal(f"<password of {login}>")
    create = " ".join(filter(None, ("CREATE ROLE", quoted(login), "LOGIN", may, "PASSWORD", password)))
    otherwise = f"ALTER ROLE {quoted(login)} {may}" if may else "NULL"
    return f"DO $login$ BEGIN {create}; EXCEPTION WHEN duplicate_object THEN {otherwise}; END $login$;"
