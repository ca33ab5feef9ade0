"""PostgreSQL refuses to run as root. Where root starts this stack, the database servers get another account."""

import ctypes
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seamline.domain.errors import ConfigError
from seamline.stack.layout import Layout

# Every Linux has one of them; none is made.
_NAMES = ("nobody", "postgres", "daemon")
_OTHERS_MAY_PASS = 0o001

_PR_SET_SECUREBITS = 28
# Without it access(2), which initdb asks, leaves the kept power out of account; with it setuid keeps all powers.
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """The account for database servers, or None where this process is not root and uses its own."""
    if os.geteuid() != 0:
        return None
    for name in _NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise ConfigError(
        f"PostgreSQL cannot run as root, and none of the accounts {', '.join(_NAMES)} exists here",
        hint="run `./seamline` as an ordinary user, or make an account: useradd --system postgres",
    )


def fresh_folder(target: Path, account: Account | None) -> Path:
    """Make an empty private folder of the server's account beside `target`, to become `target` when it is full."""
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o700)
    if account is not None:
        hand_over(fresh, account)
    return fresh


def hand_over(path: Path, account: Account) -> None:
    os.chown(path, account.uid, account.gid)


def become(account: Account | None, layout: Layout) -> None:
    """Turn this process into the server's account, for good. Followed by exec.

    A checkout below /root lies behind a folder that no other account may pass. There the server keeps one power of
    root, to pass over file permissions; nothing else.
    """
    if account is None:
        return
    keeps_passage = not _may_pass(account, (layout.data, layout.settings.env))
    os.setgroups([])
    os.setresgid(account.gid, account.gid, account.gid)
    if keeps_passage:
        _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0)
    os.setresuid(account.uid, account.uid, account.uid)
    if keeps_passage:
        _keep_only(_CAP_DAC_OVERRIDE)


def _may_pass(account: Account, paths: Sequence[Path]) -> bool:
    for path in paths:
        for folder in path.parents:
            stat = folder.stat()
            if not stat.st_mode & _OTHERS_MAY_PASS and stat.st_uid != account.uid:
                return False
    return True


def _keep_only(capability: int) -> None:
    mask = 1 << capability
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # effective, permitted, inheritable; the second three are capabilities above 31.
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def _prctl(option: int, first: int, second: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, first, second, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def run_as_server(command: Sequence[str], layout: Layout, *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a server's own tool (initdb, mariadb-install-db) as its account, and wait for it."""
    wrapped = [str(layout.python), "-m", "seamline.stack.run", "--as-server", *command]
    return subprocess.run(wrapped, capture_output=True, text=True, timeout=timeout_s, check=False)
