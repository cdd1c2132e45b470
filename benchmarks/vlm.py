"""What computing a picture's prefix once saves a language model that sees, against a forward pass a label.

    python -m benchmarks.vlm [--labels 10] [--pictures 6] [--side 112]

One LLaVA with random weights, in realistic proportions of image to text tokens (8 x 8 patches, LENS's prompt), and the
same labels both ways, in one process and in turn. The answers must be the same up to float32's rounding. It is the time
on this machine's CPU, with one thread; no model's quality is measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as t
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
from vlm_world import SPECIAL, _llama, tokenizer

from fairgate.models import Floats
from fairgate.models.checkpoints import Device
from fairgate.models.vlm.asking import LENS
from fairgate.models.vlm.engine import VisionLanguage
from fairgate.models.vlm.layouts import LAYOUTS

QUESTION = "Can you please identify the occupation that best represents the image?"
LABELS = ["doctor", "nurse", "physician assistant", "veterinarian", "clinical laboratory technician", "pharmacist"]
LABELS += ["emergency medical technician", "midwife", "chef", "line cook", "waiter", "dishwasher", "host", "server"]
PATCH = 14


def model_of(side: int, width: int) -> VisionLanguage:
    """A LLaVA for pictures of `side` pixels."""

    torch.manual_seed(0)
    words = tokenizer()
    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": 6, "num_attention_heads": 8}
    config = t.LlavaConfig(
        vision_config={"model_type": "clip_vision_model", **sizes, "image_size": side, "patch_size": PATCH},
        text_config=_llama(len(words), **sizes),
        image_token_index=SPECIAL.index("<image>"),
        vision_feature_layer=-2,
    )
    images = t.CLIPImageProcessor(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
    options = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor: Any = t.LlavaProcessor(images, words, patch_size=PATCH, **options)
    prompt = LENS.format(shown="{image}", question=QUESTION)
    model = t.LlavaForConditionalGeneration(config).eval()
    return VisionLanguage(model, processor, LAYOUTS["llava"], prompt, Device("cpu", "fp32"), "benchmark")


def a_pass_each(one: VisionLanguage, image: Image.Image, labels: list[list[int]]) -> Floats:
    """A forward pass over picture, prompt and label for every label."""
    found = []
    for label in labels:
        inputs = one.inputs(image)
        tokens = torch.tensor([label])
        inputs["input_ids"] = torch.cat([inputs["input_ids"], tokens], dim=1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        logits = one.model(**inputs, use_cache=False, logits_to_keep=len(label) + 1).logits[0, :-1].double()
        found.append(float(torch.log_softmax(logits, dim=-1).gather(1, tokens.T).sum()))
    return np.array(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both times; 1 where the answers differ or less than three times is saved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--labels", type=int, default=10, choices=range(2, len(LABELS) + 1))
    parser.add_argument("--pictures", type=int, default=6)
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    one = model_of(options.side, options.width)
    labels = one.tokens(LABELS[: options.labels])
    draws = np.random.default_rng(0)
    side = options.side
    pictures = [Image.fromarray(draws.integers(0, 256, (side, side, 3), np.uint8)) for _ in range(options.pictures + 1)]
    spent, worst = {"a pass a label": 0.0, "one prefix": 0.0}, 0.0
    with torch.inference_mode():
        for number, picture in enumerate(pictures):
            found = []
            for name, way in (
                ("a pass a label", lambda *given: a_pass_each(one, *given)),
                ("one prefix", one.log_likelihoods),
            ):
                start = time.perf_counter()
                found.append(way(picture, labels))
                spent[name] += (time.perf_counter() - start) * (number > 0)  # the first picture warms up
            worst = max(worst, float(np.abs(found[0] - found[1]).max()))
    tokens = one.inputs(pictures[0])["input_ids"].shape[1]
    print(f"{options.labels} labels of {min(map(len, labels))} to {max(map(len, labels))} tokens, prefix of {tokens}")
    for name, seconds in spent.items():
        print(f"  {name}: {1000 * seconds / options.pictures:.0f} ms a picture")
    times = spent["a pass a label"] / spent["one prefix"]
    print(f"  {times:.1f} times as fast; largest difference of a log-likelihood {worst:.1e}")
    return 0 if times >= 3 and worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
