"""The rights that an administrator gives once, in HBase's shell."""

from seamline.kinds.logins import DestinationLogins


def grant_script(namespace: str, *, logins: DestinationLogins) -> str:
    """As `hbase shell` takes it. The publisher makes tables, keeps those that leave and removes them."""
    lines = [
        f"# HBase destination, namespace {namespace}, as an administrator in hbase shell. Without HBase's",
        "# AccessController every login may do all, and the first line alone is needed.",
        f"create_namespace '{namespace}'",
        f"grant '{logins.publisher}', 'RWXCA', '@{namespace}'",
    ]
    if logins.writer != logins.publisher:
        lines.append(f"grant '{logins.writer}', 'RW', '@{namespace}'")
    return "\n".join([*lines, ""])
