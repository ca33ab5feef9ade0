"""Becomes a command for which, and for all that it starts, flushing to disk is done at once: `python -m
seamline.stack.without_fsync <command…>`.

For tests. They kill processes, never the machine, and what a process has written outlives it in the system's cache,
flushed or not. Servers make and drop hundreds of databases there, and would wait for the disk most of that time.
Their settings stay those of a real server: the kernel answers the calls in their place.
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence

# linux/unistd.h of x86-64: fsync, fdatasync, msync, sync, sync_file_range, syncfs.
_FLUSHES = (74, 75, 26, 162, 277, 306)
_AUDIT_ARCH_X86_64 = 0xC000003E
# linux/seccomp.h: a filter sees the number of a call and its architecture at these places.
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_LET_PASS = 0x7FFF0000
# SECCOMP_RET_ERRNO with 0, no error.
_ANSWER_DONE = 0x00050000
# linux/bpf_common.h.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def leave_flushing_out() -> bool:
    """From now on this process, and all that it starts, for good. False where this machine cannot: flushes are real."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return False
    instructions = _filter()
    program = _Program(len(instructions) // 8, instructions)
    prctl = ctypes.CDLL(None).prctl
    if prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0:
        return True
    # Who is not root may filter only where no program that it starts has more rights than itself.
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _filter() -> bytes:
    """Jumps count the instructions that they pass over."""
    count = len(_FLUSHES)
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE_AT),
            _instruction(_JUMP_IF_EQUAL, _AUDIT_ARCH_X86_64, otherwise=count + 1),
            _instruction(_LOAD, _NUMBER_AT),
            *(_instruction(_JUMP_IF_EQUAL, call, then=count - place) for place, call in enumerate(_FLUSHES)),
            _instruction(_RETURN, _LET_PASS),
            _instruction(_RETURN, _ANSWER_DONE),
        )
    )


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def main(command: Sequence[str]) -> None:
    leave_flushing_out()
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    main(sys.argv[1:])
