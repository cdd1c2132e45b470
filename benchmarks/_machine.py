"""What a benchmark's numbers are of: written next to them."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def facts(*packages: str) -> dict[str, object]:
    """Processor, cores, Python and the versions of packages."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def processor() -> str:
    """The processor's name."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.is_file() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
