"""The first file of the child process that opens a stranger's model. It gives up what the model must not have, for
good, before any library is imported: files outside the model and the installed packages, the network, other programs.

Linux enforces it (Landlock and seccomp), so native readers of weights and tokenizers are bound too. An audit hook
refuses the same in Python where a kernel cannot. The standard library alone is imported here.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILES, NETWORK, PROGRAMS = "files outside the model", "the network", "other programs"

_ADD_RULE, _CREATE, _RESTRICT = 445, 444, 446
"""System calls of Landlock, the same numbers on every processor."""
_READ = 1 << 2 | 1 << 3  # a file, a folder's list
_WRITE = 1 << 1 | 0b111111111 << 4  # a file; removing and making anything
_BY_VERSION = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # linking and moving, truncating, commands to devices
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_OTHERS = 0b11  # abstract sockets of, and signals to, other processes: from version 6

_REFUSED = {
    # socket, connect, accept, bind, listen, execve, ptrace, mount, add_key, request_key, keyctl, unshare,
    # open_by_handle_at, setns, process_vm_readv, process_vm_writev, bpf, execveat, io_uring_setup, pidfd_getfd
    "x86_64": (
        0xC000003E,
        (41, 42, 43, 49, 50, 59, 101, 165, 248, 249, 250, 272, 304, 308, 310, 311, 321, 322, 425, 438),
    ),
    "aarch64": (
        0xC00000B7,
        (198, 203, 202, 200, 201, 221, 117, 40, 217, 218, 219, 97, 265, 268, 270, 271, 280, 281, 425, 438),
    ),
}
"""By processor: how seccomp names it, and the system calls that are answered with "not permitted"."""
_ALLOW, _NOT_PERMITTED = 0x7FFF0000, 0x00050001
_OTHER_NUMBERS = 0x40000000  # x86-64's second table of system calls begins here

_EVENTS = (
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.", "os.exec", "os.fork"),
    *("os.posix_spawn", "os.spawn", "os.system", "os.startfile", "pty.spawn", "urllib.Request"),
)


def restrict(readable: Iterable[Path], writable: Path) -> list[str]:
    """Give up everything but reading these files and folders, and writing below one folder.

    Returns what this machine's kernel cannot take away: FILES, NETWORK, PROGRAMS. Cannot be undone.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = [*readable, *_of_the_machine(), writable]
    libc = ctypes.CDLL(None, use_errno=True)
    missing = []
    if not hasattr(libc, "prctl") or libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS: what both of them need
        missing = [FILES, NETWORK, PROGRAMS]
    else:
        if not _confine(libc, allowed, writable):
            missing.append(FILES)
        if not _filter_calls(libc):
            missing += [NETWORK, PROGRAMS]
    _refuse_in_python([os.path.realpath(path) for path in allowed] if FILES in missing else None)
    return missing


def _of_the_machine() -> list[Path]:
    """What Python, its packages and a GPU's driver read."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share"}
    some = ("ld.so.cache", "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "OpenCL", "vulkan", "alternatives")
    facts = (
        "self",
        "cpuinfo",
        "meminfo",
        "stat",
        "filesystems",
        "modules",
        "devices",
        "driver",
        "sys/vm",
        "sys/kernel",
    )
    devices = ("null", "zero", "urandom", "random", *(each.name for each in Path("/dev").glob("nvidia*")))
    paths = [*map(Path, sorted(prefixes)), Path("/usr/local/nvidia"), Path("/usr/local/cuda"), Path("/sys")]
    paths += [Path("/etc", name) for name in some] + [Path("/proc", name) for name in facts]
    return [*paths, *(Path("/dev", name) for name in devices)]


def _confine(libc: Any, allowed: Iterable[Path], writable: Path) -> bool:
    version = libc.syscall(_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = _READ | _WRITE | 1 << 0 | sum(bit for least, bit in _BY_VERSION.items() if version >= least)
    ruleset = struct.pack("=QQQ", handled, 0, _OTHERS if version >= 6 else 0)[: 24 if version >= 6 else 8]
    descriptor = libc.syscall(_CREATE, ruleset, len(ruleset), 0)
    if descriptor < 0:
        return False
    for path in allowed:
        writes = path == writable or Path("/dev") in path.parents
        rights = (handled & ~1) if writes else _READ  # programs are started nowhere
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # it is not there
        if not path.is_dir():
            rights &= _OF_FILES
        failed = libc.syscall(_ADD_RULE, descriptor, 1, struct.pack("=Qi", rights, opened), 0)
        os.close(opened)
        if failed:
            return False
    failed = libc.syscall(_RESTRICT, descriptor, 0)
    os.close(descriptor)
    return not failed


def _filter_calls(libc: Any) -> bool:
    """Whether seccomp refuses the system calls from now on, in this thread and in all that it starts."""
    if sys.platform != "linux" or platform.machine() not in _REFUSED:
        return False
    architecture, numbers = _REFUSED[platform.machine()]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    length = len(numbers)
    steps = [(load, 0, 0, 4), (equal, 0, length + 3, architecture), (load, 0, 0, 0)]
    steps.append((at_least, length + 1, 0, _OTHER_NUMBERS))
    steps += [(equal, length - place, 0, number) for place, number in enumerate(numbers)]
    steps += [(answer, 0, 0, _ALLOW), (answer, 0, 0, _NOT_PERMITTED)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(program))
    return not libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _refuse_in_python(allowed: list[str] | None) -> None:
    """An audit hook that refuses network and programs and, where the kernel does not, files that are not `allowed`."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_EVENTS):
            raise PermissionError(f"a model may not use {event}")
        if allowed is not None and event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not any(path == each or path.startswith(each.rstrip("/") + "/") for each in allowed):
                raise PermissionError(f"a model may not open {path}")

    sys.addaudithook(hook)


def main() -> None:
    """Read what is to be opened, give up the rest, and answer until there is nothing more to answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not become an answer
    questions = sys.stdin.buffer
    (length,) = struct.unpack("<I", questions.read(4))
    settings: Mapping[str, Any] = json.loads(questions.read(length))
    missing = restrict([Path(path) for path in settings["readable"]], Path(settings["writable"]))
    sys.path[:] = settings["path"]
    import importlib

    importlib.import_module(settings["host"]).serve(settings["task"], missing, questions, answers)


if __name__ == "__main__":
    main()
