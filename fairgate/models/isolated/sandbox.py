"""The first file of the child process that opens a stranger's model. It gives up what the model must not have, for
good, before any library is imported: files outside the model and the installed packages, the network, other programs
and processes, and what root may do.

Linux enforces it (Landlock and seccomp), so native readers of weights and tokenizers are bound too. An audit hook
refuses the same in Python where a kernel cannot. The standard library alone is imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
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
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_OTHERS = 0b11  # abstract sockets of, and signals to, other processes: from version 6

_REFUSED = {
    "x86_64": (
        # socket, bind, listen: a GPU's driver needs these
        *(41, 49, 50),
        # connect, accept, accept4, execve, ptrace, mount, add_key, request_key, keyctl, unshare,
        *(42, 43, 288, 59, 101, 165, 248, 249, 250, 272),
        # open_by_handle_at, setns, process_vm_readv, process_vm_writev, bpf, execveat, io_uring_setup, pidfd_getfd,
        *(304, 308, 310, 311, 321, 322, 425, 438),
        # fork, vfork; tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal, pidfd_open; setpriority,
        # ioprio_set, sched_setparam, sched_setscheduler, sched_setattr
        *(57, 58, 200, 129, 297, 424, 434, 141, 251, 142, 144, 314),
        # truncate; chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat, utime, utimes, futimesat,
        # utimensat, setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr, setxattrat, removexattrat,
        # file_setattr, openat2: Landlock knows none of them, or not on every kernel;
        *(76, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199, 463, 466, 469, 437),
        # memory, queues and semaphores that programs share: shmget, shmat, shmctl, semget, semop, semctl, semtimedop,
        # msgget, msgsnd, msgrcv, msgctl, mq_open, mq_unlink; chroot, umount2, perf_event_open, fanotify_init,
        # inotify_init, inotify_init1, userfaultfd
        *(29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241, 161, 166, 298, 300, 253, 294, 323),
    ),
    "aarch64": (
        *(198, 200, 201),
        *(203, 202, 242, 221, 117, 40, 217, 218, 219, 97),
        *(265, 268, 270, 271, 280, 281, 425, 438),
        *(130, 138, 240, 424, 434, 140, 30, 118, 119, 274),
        *(45, 52, 53, 452, 55, 54, 88, 5, 6, 7, 14, 15, 16, 463, 466, 469, 437),
        *(194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181, 51, 39, 241, 262, 26, 282),
    ),
}
"""By processor: the system calls that are answered with "not permitted", in one order."""
_OF_DRIVERS = 3  # of them, the first
_NAMES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How seccomp calls a processor."""
_ALL = 0xFFFFFFFF
_UNIX, _DATAGRAM = 1, 0b10  # of socket: its family; the type's bit of what can be sent to without a connection
_THREAD = 0x10000  # of clone: a thread of this process, not another one
_CUT, _MODE = 0x200, 0x203  # of open: to cut a file; that, and whether it is opened for reading alone
_NEITHER = 0b11  # of open: neither to read nor to write, for which Landlock needs no right: to cut, to command a device
_ON_FILES = (8, 15, 1024), (0x8901, 0x8902, 0x40086602, 0x401C5820, 0x40806685)
"""Of fcntl: F_SETOWN, F_SETOWN_EX (whom a file signals), F_SETLEASE. Of ioctl: FIOSETOWN, SIOCSPGRP; FS_IOC_SETFLAGS,
FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY, for which a file need not be opened for writing."""
_ALLOW, _NOT_PERMITTED, _NOT_THERE = 0x7FFF0000, 0x00050001, 0x00050026
_CLONE3 = 435  # its flags are in memory, which a filter cannot see: the C library takes clone instead
_GPUS = tuple(each.name for each in Path("/dev").glob("nvidia*"))
_THREADS = Path("/proc/self/task")  # a GPU's driver names its threads, by writing there
_KEPT = 0b110  # capabilities of root: to read, where files are let through, what others own
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
    allowed = [*readable, *_of_the_machine(), writable, *([_THREADS] if _GPUS else [])]
    libc = ctypes.CDLL(None, use_errno=True)
    missing = []
    if not hasattr(libc, "prctl") or libc.prctl(38, 1, 0, 0, 0):  # PR_SET_NO_NEW_PRIVS: what both of them need
        missing = [FILES, NETWORK, PROGRAMS]
    else:
        if not _confine(libc, allowed, writable):
            missing.append(FILES)
        _give_up_root(libc)
        if not _filter_calls(libc):
            missing += [NETWORK, PROGRAMS]
    _refuse_in_python([os.path.realpath(path) for path in allowed] if FILES in missing else None)
    return missing


def _of_the_machine() -> list[Path]:
    """What Python, its packages and a GPU's driver read."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share"}
    some = ("ld.so.cache", "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "OpenCL", "vulkan", "alternatives")
    facts = ("self", "cpuinfo", "meminfo", "stat", "filesystems", "modules", "devices", "driver")
    devices = ("null", "zero", "urandom", "random", *_GPUS)
    paths = [*map(Path, sorted(prefixes)), Path("/usr/local/nvidia"), Path("/usr/local/cuda"), Path("/sys")]
    paths += [Path("/etc", name) for name in some] + [Path("/proc", name) for name in (*facts, "sys/vm", "sys/kernel")]
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
        writes = path in (writable, _THREADS) or Path("/dev") in path.parents
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


def _some_calls(processor: str) -> list[tuple[int, int, int, int, bool]]:
    """System calls that depend on an argument: the number, which argument, its bits that count, their value, and
    whether they are permitted with that value alone, or with any other."""
    own, socket = os.getpid(), _REFUSED[processor][0]
    if processor == "x86_64":  # clone, kill, tgkill, prlimit64, prctl (to outlive the parent), socketpair; fcntl, ioctl
        clone, kill, tgkill, limits, control, pair, files = 56, 62, 234, 302, 157, 53, (72, 16)
    else:
        clone, kill, tgkill, limits, control, pair, files = 220, 129, 131, 261, 167, 199, (25, 29)
    opening = [(2, 1), (257, 2)] if processor == "x86_64" else [(56, 2)]  # open, openat
    some = [(clone, 0, _THREAD, _THREAD, True), (kill, 0, _ALL, own, True), (tgkill, 0, _ALL, own, True)]
    some += [(limits, 0, _ALL, 0, True), (control, 0, _ALL, _END_WITH_PARENT, False)]
    some += [(socket, 0, _ALL, _UNIX, True), (socket, 1, _DATAGRAM, 0, True), (pair, 1, _DATAGRAM, 0, True)]
    some += [(number, 1, _ALL, value, False) for at, number in enumerate(files) for value in _ON_FILES[at]]
    modes = ((_MODE, _CUT), (_NEITHER, _NEITHER))
    return some + [(number, place, mask, value, False) for number, place in opening for mask, value in modes]


def _filter_calls(libc: Any) -> bool:
    """Whether seccomp refuses the system calls from now on, in this thread and in all that it starts."""
    processor = platform.machine()
    if sys.platform != "linux" or processor not in _REFUSED:
        return False
    load, equal, at_least, bits, answer = 0x20, 0x15, 0x35, 0x54, 0x06
    refuse = (answer, 0, 0, _NOT_PERMITTED)
    steps = [(load, 0, 0, 4), (equal, 1, 0, _NAMES[processor]), refuse]
    steps += [(load, 0, 0, 0), (at_least, 0, 1, _OTHER_NUMBERS), refuse]
    steps += [(equal, 0, 1, _CLONE3), (answer, 0, 0, _NOT_THERE)]
    for number in _REFUSED[processor][_OF_DRIVERS if _GPUS else 0 :]:
        steps += [(equal, 0, 1, number), refuse]
    for number, place, mask, value, alone in _some_calls(processor):
        steps += [(equal, 0, 5, number), (load, 0, 0, 16 + 8 * place), (bits, 0, 0, mask)]
        steps += [(equal, int(alone), int(not alone), value), refuse, (load, 0, 0, 0)]
    steps.append((answer, 0, 0, _ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(program))
    return not libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _give_up_root(libc: Any) -> None:
    """Of what root may do to the machine (load modules, set clocks, watch every file) keep nothing but `_KEPT`."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    data = ctypes.create_string_buffer(24)
    if not libc.capget(header, data):
        effective, permitted, _, *_ = struct.unpack("=6I", data.raw)
        kept = struct.pack("=6I", effective & _KEPT, permitted & _KEPT, 0, 0, 0, 0)
        libc.capset(header, ctypes.create_string_buffer(kept, 24))


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


def _go_first(parent: int | None) -> None:
    """Be what the kernel ends where memory is short, and end with the parent, whatever ends it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    libc = ctypes.CDLL(None)
    if parent is not None and hasattr(libc, "prctl"):
        libc.prctl(_END_WITH_PARENT, 9, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)


def main() -> None:
    """Read what is to be opened, give up the rest, and answer until there is nothing more to answer; if it has to be
    strict, open nothing where something is missing."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not become an answer
    questions = sys.stdin.buffer
    settings: Mapping[str, Any] = json.loads(questions.readline())
    open_model = questions.read(settings["length"])
    _go_first(settings["parent"])
    sys.path[:] = settings["path"]
    importlib.util.find_spec("fairgate")  # lists the folder around the package, which cannot be read from here on
    missing = restrict([Path(path) for path in settings["readable"]], Path(settings["writable"]))
    if missing and settings["strict"]:
        told = json.dumps({"content": json.dumps({"missing": missing}), "arrays": []}).encode()
        answers.write(struct.pack("<I", len(told)) + told)
        answers.flush()
        return
    from fairgate.models.isolated.messages import serve

    serve(open_model, missing, questions, answers)


if __name__ == "__main__":
    main()
