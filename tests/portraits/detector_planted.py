"""A tiny YOLOS whose findings are fitted: random layers, and the last layer of its classes by ridge regression.

In which pictures it finds the person is chosen, so that a bias can be planted for one subject and group. It knows the
pictures that it was fitted on alone, and all persons are at one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

SIDE, SURE = 96, 4.0  # pixels; log-odds of what is found, or not
BOX = {"box_left": 10, "box_top": 12, "box_right": 86, "box_bottom": 96}


def fitted(rows: Sequence[Mapping[str, Any]], images: Sequence[Image.Image]) -> Any:
    """`save(folder, finds, seed)` writes a detector that finds the person where `finds(row)`; `seed` is of noise."""
    import transformers as t

    config = t.YolosConfig(
        image_size=[SIDE, SIDE],
        patch_size=16,
        hidden_size=384,
        intermediate_size=384,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_detection_tokens=1,
        id2label={0: "person", 1: "statue"},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = t.YolosForObjectDetection(config).eval()
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.data.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    processor = t.YolosImageProcessor(size={"shortest_edge": SIDE, "longest_edge": SIDE})
    classes, boxes = model.class_labels_classifier.layers, model.bbox_predictor.layers
    left, top, right, bottom = (side / SIDE for side in BOX.values())
    place = torch.tensor([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top])
    boxes[-1].weight.data.zero_()
    boxes[-1].bias.data = torch.logit(place)
    with torch.inference_mode():
        seen = []
        for start in range(0, len(images), 64):
            pixels = processor(images=list(images[start : start + 64]), return_tensors="pt")["pixel_values"]
            token = model.vit(pixels).last_hidden_state[:, -1]
            for layer in classes[:-1]:
                token = layer(token).relu()
            seen.append(token)
    features = torch.cat(seen).double().numpy()
    gram = features @ features.T
    solver = gram + 1e-6 * np.trace(gram) / len(gram) * np.eye(len(gram))

    def save(folder: Path, finds: Callable[[Mapping[str, Any]], bool], seed: int = 0) -> Path:
        odds = np.array([SURE if finds(row) else -SURE for row in rows])
        odds += np.random.default_rng(seed).normal(0, 0.1, odds.shape)
        weights = torch.from_numpy(features.T @ np.linalg.solve(solver, odds)).float()
        classes[-1].weight.data = torch.stack([weights, 0 * weights, -weights]) / 2
        classes[-1].bias.data = torch.tensor([0.0, -9.0, 0.0])  # never a statue
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return folder

    return save
