"""Full disks and read-only folders, for one forked run only: mounted in a mount namespace that ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MOUNTS = """
import ctypes, os, shutil, tempfile

tempfile.tempdir = None  # the warm process may have chosen one
libc = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_MOUNTS, PRIVATE, READ_ONLY, BIND, REMOUNT = 0x10000000, 0x20000, 1 << 18 | 1 << 14, 1, 4096, 32


def call(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, options=""):
    call(libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()))


user, group = os.getuid(), os.getgid()
if user == 0:
    call(libc.unshare(NEW_MOUNTS))
else:
    call(libc.unshare(NEW_USER | NEW_MOUNTS))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as handle:
            handle.write(text)
mount("none", "/", "none", PRIVATE)
"""

_FULL = """
folder, free = {folder!r}, {free!r}
os.makedirs(folder, exist_ok=True)
held = tempfile.mkdtemp(dir=os.path.dirname(folder))
shutil.copytree(folder, held, dirs_exist_ok=True)
mount("tmpfs", folder, "tmpfs", 0, "size=8m")
shutil.copytree(held, folder, dirs_exist_ok=True)
shutil.rmtree(held)
os.chmod(folder, 0o1777)
filler = os.open(os.path.join(folder, ".filler"), os.O_WRONLY | os.O_CREAT)
written = 0
try:
    while True:
        written += os.write(filler, b"x" * 4096)
except OSError:
    os.ftruncate(filler, max(0, written - free))
os.close(filler)
tempfile.tempdir = None
"""

_READ_ONLY = """
folder = {folder!r}
os.makedirs(folder, exist_ok=True)
mount(folder, folder, "none", BIND)
mount(folder, folder, "none", BIND | REMOUNT | READ_ONLY)
"""

FILE_LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""
"""No file may grow beyond so many bytes: Python, Arrow, safetensors and SQLite all meet it as an error of writing."""


def full(folder: Path, free: int = 0) -> str:
    """A prelude after which `folder` keeps what it holds and stands on a disk with `free` bytes left (whole pages)."""
    return _MOUNTS + _FULL.format(folder=str(folder), free=free)


def read_only(folder: Path) -> str:
    """A prelude after which nobody, root included, may write in `folder`."""
    return _MOUNTS + _READ_ONLY.format(folder=str(folder))


def may_mount() -> bool:
    """May this user mount in a namespace of their own? Not in every container, nor where user namespaces are off."""
    return subprocess.run([sys.executable, "-c", _MOUNTS], capture_output=True, check=False).returncode == 0
