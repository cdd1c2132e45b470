"""How long the gate takes: the first time, and with cached scores. Run it on a quiet machine.

    python -m benchmarks.cached_gate

Prints wall seconds of `pytest --fairness-suite occupations` on the demonstration data (cached: under 3),
beside `pytest --version`, which is what any pytest costs here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
GATE = [
    *("--fairness-suite", "occupations", "--fairness-model", f"{CHECKPOINTS}/biased", "--fairness-mlflow", "off"),
    *("--fairness-baseline", f"model:{CHECKPOINTS}/base", "-q"),
]


def seconds(words: Sequence[str], cache: str) -> float:
    """Wall time of one pytest process."""
    started = time.perf_counter()
    environment = {**os.environ, "FAIRGATE_CACHE": cache}
    subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def main() -> None:
    """Print the three times."""
    with tempfile.TemporaryDirectory() as cache:
        alone = min(seconds(["--version"], cache) for _ in range(3))
        first = seconds(GATE, cache)
        again = [seconds(GATE, cache) for _ in range(5)]
    print(f"pytest --version        {alone:6.2f} s")
    print(f"gate, nothing cached    {first:6.2f} s")
    print(f"gate, scores cached     {min(again):6.2f} s (best of 5; slowest {max(again):.2f} s)")


if __name__ == "__main__":
    main()
