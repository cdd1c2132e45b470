"""The demonstration data's second size of CLIP, for F_M by size (paper 1's table 6)."""

from __future__ import annotations

import runpy
from pathlib import Path

from open_clip import CLIP

from fairgate.portraits import clip

SCRIPT = Path(__file__).parents[2] / "examples" / "sizes" / "train_smaller.py"


def test_the_smaller_model_has_a_third_of_the_parameters_of_base() -> None:
    smaller = runpy.run_path(str(SCRIPT))["smaller"]()
    few, many = (
        sum(part.numel() for part in CLIP(**config["model_cfg"]).parameters()) for config in (smaller, clip.config())
    )
    assert 3 < many / few < 3.5
    assert smaller["preprocess_cfg"] == clip.config()["preprocess_cfg"]
