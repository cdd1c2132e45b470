"""Native libraries in the working folder, which the loader takes for those of PyTorch's wheels.

nvidia-cusparselt-cu13, which `import torch` loads, is linked with RUNPATH `$ORIGIN:`. The entry after the colon is
empty and means the working folder: a `libcuda.so.1` there runs its code. The loader looks in folders named for features
of the processor first (`man ld.so`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairgate.ground.errors import SettingsError

_LIBRARIES = "lib*.so*"
_OF_PROCESSORS = ("tls", "haswell", "xeon_phi", "avx512_1", "x86_64", "aarch64", "atomics")
"""Folders that glibc before 2.37 looks in, also one inside another."""
_DEEPEST = 4


def refuse_libraries() -> None:
    """Raise SettingsError where the working folder holds native libraries; to be called before torch is imported."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # it was removed: nothing can be loaded from it
        return
    library = next((path for place in _searched(folder) for path in place.glob(_LIBRARIES)), None)
    if library is not None:
        raise SettingsError(
            f"the working folder holds the native library '{library.relative_to(folder)}', which importing PyTorch can "
            "load in place of the system's: its code would run here.",
            where=str(library),
            remedy="move it, or run fairgate in an empty folder and name the repository with --root",
        )


def _searched(folder: Path, depth: int = 0) -> Iterator[Path]:
    yield folder
    yield from folder.glob("glibc-hwcaps/*")
    if depth < _DEEPEST:
        for name in _OF_PROCESSORS:
            if (folder / name).is_dir():
                yield from _searched(folder / name, depth + 1)
