"""How long the gate takes: the first time, and with cached scores. Run it on a quiet machine.

    python -m benchmarks.cached_gate [--json FILE]

Prints wall seconds of `pytest --fairness-suite occupations` on the demonstration data and of its `--collect-only`
(cached: at most 1.1 more than `pytest --version`, which is what any pytest costs here), medians of processes in turn.
Without the plugin of hypothesis, which imports it at the end of every run, whatever the tests are: 0.15 s.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks._machine import facts

CHECKPOINTS = "open_clip:local-dir:build/portraits/checkpoints"
GATE = [
    *("--fairness-suite", "occupations", "--fairness-model", f"{CHECKPOINTS}/biased", "--fairness-mlflow", "off"),
    *("--fairness-baseline", f"model:{CHECKPOINTS}/base", "-q", "-p", "no:hypothesispytest"),
]
CACHED = {"pytest --version": ["--version"], "gate, collected": [*GATE, "--collect-only"], "gate, scores cached": GATE}


def seconds(words: Sequence[str], cache: str) -> float:
    """Wall time of one pytest process."""
    started = time.perf_counter()
    environment = {**os.environ, "FAIRGATE_CACHE": cache}
    subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def main() -> None:
    """Print the four times, and write them with the machine's facts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        first = seconds(GATE, cache)
        turns = [{name: seconds(words, cache) for name, words in CACHED.items()} for _ in range(given.turns)]
    medians = {name: statistics.median(turn[name] for turn in turns) for name in CACHED}
    print(f"{'gate, nothing cached':<20} {first:6.2f} s")
    for name, median in medians.items():
        times = [turn[name] for turn in turns]
        print(f"{name:<20} {median:6.2f} s ({min(times):.2f} to {max(times):.2f})")
    if given.json:
        rows = {"gate, nothing cached": first, **medians}
        given.json.write_text(json.dumps({"machine": facts("pytest"), "wall_s": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
