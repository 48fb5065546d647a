"""A program begun without the keys of whoever begins it: the kernel's keyrings pass through other walls.

A process hands its session keyring down to all that it begins, in namespaces too, and one user's keys answer
to all of that user's processes. So bubblewrap is begun with a session keyring that nothing is in, and what
runs inside has no calls to ask for keys, or to leave one.
"""

import platform
import struct
import sys

# Of each machine: its number in the kernel's audit, and the first of add_key, request_key, keyctl.
_CALLS = {
    "x86_64": (0xC000003E, 248),
    "aarch64": (0xC00000B7, 217),
    "riscv64": (0xC00000F3, 217),
    "ppc64le": (0xC0000015, 269),
    "s390x": (0x80000016, 278),
}
TOLD = ("/proc/keys", "/proc/key-users")
"""Where the kernel says what its keys are called: to be hidden inside."""
_JOIN_SESSION_KEYRING = 1
_LOAD, _EQUAL, _AT_LEAST, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x06  # of a filter in classic BPF
_ALLOW, _REFUSE, _ABSENT = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM, ENOSYS
_OF_X32 = 0x40000000

_BEGIN = """
import ctypes, os, sys
filter = bytes.fromhex(sys.argv[1])
if {call}:
    ctypes.CDLL(None).syscall({call}, {join}, None)  # fails only where the kernel has no keys at all
kept = os.memfd_create("filter", 0)
os.write(kept, filter)
os.lseek(kept, 0, 0)
program, *rest = sys.argv[2:]
os.execvp(program, [program, *(["--seccomp", str(kept)] if filter else []), *rest])
"""


def command(bwrap: str, *arguments: str) -> list[str]:
    """bubblewrap with these arguments, in a session keyring of its own and with no calls for keys inside."""
    call = _CALLS.get(platform.machine(), (0, -2))[1] + 2
    begin = _BEGIN.format(call=call, join=_JOIN_SESSION_KEYRING)
    return [sys.executable, "-I", "-S", "-c", begin, refused().hex(), bwrap, *arguments]


def refused() -> bytes:
    """A filter that refuses the calls for keys, and all calls in another machine's numbers; b"" if
    unknown."""
    if platform.machine() not in _CALLS:
        return b""
    machine, first = _CALLS[platform.machine()]
    steps = [  # code, jump if true, jump if false, value
        (_LOAD, 0, 0, 4),  # which machine's numbers
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),  # which call
        (_AT_LEAST, 3, 0, _OF_X32),
        (_AT_LEAST, 0, 1, first),
        (_ABOVE, 0, 1, first + 2),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ABSENT),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
