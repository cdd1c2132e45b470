"""A tiny LLaVA whose answers about pictures are fitted: random layers, and a last layer by ridge regression.

What it says of each picture is chosen (which of the labels, with which log-odds), so that a bias can be planted for one
subject and group. Its labels are single tokens of the tokenizer. It knows the pictures that it was fitted on alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from vlm_world import PATCH, SIDE, SPECIAL, _clip_images, _llama, tokenizer

Said = Callable[[dict[str, Any]], str]
SURE = 4.0  # log-odds of the chosen label


def fitted(rows: Sequence[dict[str, Any]], images: Sequence[Image.Image], labels: Sequence[str], prompt: str) -> Any:
    """`save(folder, said, seed)` writes a checkpoint that says `said(row)` of each row; `seed` is of its noise."""
    import transformers as t

    words = tokenizer()
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        config = t.LlavaConfig(
            vision_config={
                **{"model_type": "clip_vision_model", "image_size": SIDE, "patch_size": PATCH, **sizes},
                **{"hidden_size": 192, "intermediate_size": 192},
            },
            text_config=_llama(len(words), **sizes, hidden_size=384, intermediate_size=384),
            image_token_index=SPECIAL.index("<image>"),
            vision_feature_layer=-1,
        )
        model = t.LlavaForConditionalGeneration(config).eval()
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.data.normal_(std=1.5 / parameter.shape[-1] ** 0.5)
    processor = t.LlavaProcessor(
        _clip_images(), words, patch_size=PATCH, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    with torch.inference_mode():
        states = []
        for start in range(0, len(images), 64):
            shown = list(images[start : start + 64])
            inputs = processor(images=shown, text=[f"<image>{prompt}"] * len(shown), return_tensors="pt")
            states.append(model.model(**inputs).last_hidden_state[:, -1])
    features = torch.cat(states).double().numpy()
    tokens = [words(f" {label}", add_special_tokens=False)["input_ids"] for label in labels]
    assert all(len(one) == 1 for one in tokens)

    def save(folder: Path, said: Said, seed: int = 0) -> Path:
        wanted = np.array([[SURE * (label == said(row)) for label in labels] for row in rows])
        wanted += np.random.default_rng(seed).normal(0, 0.1, wanted.shape)  # no two labels are one to it
        gram = features @ features.T
        weights = features.T @ np.linalg.solve(gram + 1e-4 * np.trace(gram) / len(gram) * np.eye(len(gram)), wanted)
        head = model.get_output_embeddings().weight
        head.data.zero_()  # no other word is as likely as the chosen label
        head.data[[one[0] for one in tokens]] = torch.from_numpy(weights.T).float()
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return folder

    return save
