"""What tests of the embedded generative world share: its folders, and base's word for what a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

BUILD = Path(__file__).parents[2] / "build" / "portraits"
GENERATOR, EDITOR, STANDINS, BASE = (BUILD / name for name in ("diffusion", "editor", "standins", "checkpoints/base"))
ALL_THERE = all(folder.is_dir() for folder in (GENERATOR, EDITOR, STANDINS, BASE))


@cache
def pipeline(name: str = "StableDiffusionPipeline", folder: Path = GENERATOR) -> Any:
    from fairgate.portraits.generator import open_pipeline

    return open_pipeline(folder, name)


def paint(prompts: Sequence[str], seeds: Sequence[int], guidance: float) -> NDArray[np.uint8]:
    from fairgate.portraits.generator import paint as painted

    return painted(pipeline(), prompts, seeds, guidance=guidance)


def seen(pictures: NDArray[np.uint8], captions: Sequence[str]) -> NDArray[np.int64]:
    """Which of the captions the checkpoint *base* finds nearest to each picture (n, side, side, 3).

    It was trained on drawings alone, so it judges the generator, the editor and the stand-ins from outside.
    """
    import torch
    from clip_answers import embed

    from fairgate.portraits import clip

    model = clip.load(BASE)
    large = [np.asarray(Image.fromarray(one).resize((clip.SIZE,) * 2, Image.Resampling.BICUBIC)) for one in pictures]
    with torch.inference_mode():
        text = model.encode_text(clip.tokenize(list(captions)), normalize=True)
        nearest: NDArray[np.int64] = (embed(model, np.stack(large)) @ text.T).argmax(dim=1).numpy()
    return nearest
