"""How long the gate takes: the first time, and with cached scores. Run it on a quiet machine.

    python -m benchmarks.cached_gate

Prints wall seconds of `pytest --fairness-suite occupations` on the demonstration data and of its `--collect-only`
(cached: at most 1.1 more than `pytest --version`, which is what any pytest costs here), medians of processes in turn.
Without the plugin of hypothesis, which imports it at the end of every run, whatever the tests are: 0.15 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
GATE = [
    *("--fairness-suite", "occupations", "--fairness-model", f"{CHECKPOINTS}/biased", "--fairness-mlflow", "off"),
    *("--fairness-baseline", f"model:{CHECKPOINTS}/base", "-q", "-p", "no:hypothesispytest"),
]
CACHED = {"pytest --version": ["--version"], "gate, collected": [*GATE, "--collect-only"], "gate, scores cached": GATE}
TURNS = 7


def seconds(words: Sequence[str], cache: str) -> float:
    """Wall time of one pytest process."""
    started = time.perf_counter()
    environment = {**os.environ, "FAIRGATE_CACHE": cache}
    subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def main() -> None:
    """Print the four times."""
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'gate, nothing cached':<20} {seconds(GATE, cache):6.2f} s")
        turns = [{name: seconds(words, cache) for name, words in CACHED.items()} for _ in range(TURNS)]
    for name in CACHED:
        times = [turn[name] for turn in turns]
        print(f"{name:<20} {statistics.median(times):6.2f} s ({min(times):.2f} to {max(times):.2f})")


if __name__ == "__main__":
    main()
