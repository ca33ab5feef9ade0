"""The ACL that the owner of a server sets once."""

from seamline.kinds.logins import DestinationLogins

# What our client asks, and what the scripts do. No KEYS, no FLUSHALL, no CONFIG, which shows passwords.
_COMMANDS = (
    *("auth", "hello", "ping", "select", "client|setinfo", "client|setname", "info", "time"),
    *("evalsha", "script|load", "exists", "type", "del", "unlink", "rename", "get", "set"),
    *("hget", "hgetall", "hmget", "hset", "hdel", "hexists", "hincrby"),
    *("zadd", "zrem", "zrange", "zcard", "sadd", "srem", "smembers", "sismember", "rpush", "lrange"),
)


def grant_script(prefix: str, *, logins: DestinationLogins) -> str:
    """As `redis-cli` takes it. Passwords are placeholders: they never pass through Seamline."""
    lines = [
        f"# Redis destination, keys {{{prefix}}}*, as an administrator in redis-cli. Replace each password. The lines",
        "# stay after a restart once they are in the server's aclfile: ACL SAVE.",
    ]
    for login in dict.fromkeys((logins.publisher, logins.writer)):
        commands = " ".join(f"+{command}" for command in _COMMANDS)
        lines.append(
            f'ACL SETUSER {login} on ">{_password_of(login)}" resetkeys ~{{{prefix}}}* resetchannels -@all {commands}'
        )
    return "\n".join([*lines, ""])


def _password_of(login: str) -> str:
    return f"<password of {login}>"
