"""A CLIP of the demonstration data with a third of *base*'s parameters, trained as *base* is: a second size for F_M by
size (`fairgate study robustness`, table 6 of Lui et al. 2024).

    python examples/sizes/train_smaller.py --out build/portraits/smaller
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairgate.portraits import clip
from fairgate.portraits.training import train_model


def smaller() -> dict[str, Any]:
    """The architecture of *base* with a narrower image tower of two layers."""
    config = clip.config()
    config["model_cfg"]["vision_cfg"] |= {"width": 64, "layers": 2}  # 128 and 3 in *base*
    return config


def main() -> None:
    """Train and save it."""
    parser = argparse.ArgumentParser(description="A second, smaller CLIP of the demonstration data.")
    parser.add_argument("--out", type=Path, required=True, help="Folder of the new model.")
    config = smaller()
    clip.config = lambda: config
    train_model("base", parser.parse_args().out, report=_report)


def _report(part: str, step: int, loss: float) -> None:
    if step % 50 == 0:
        print(f"{part} step {step}: loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
