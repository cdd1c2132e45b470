"""Fine-tune a CLIP on captioned pictures: a stand-in for your training, which writes the same folder.

captions.csv has the columns `file` and `caption`; `--start` is a folder that open_clip loads, `--out` the new one.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path

import open_clip
import torch
from PIL import Image
from safetensors.torch import save_file

WEIGHTS = "open_clip_model.safetensors"


def train(captions: Path, start: Path, out: Path, *, steps: int, batch: int = 64, rate: float = 1e-4) -> None:
    """Train for so many steps, and write the checkpoint next to a copy of the start's configuration."""
    torch.manual_seed(0)
    name = f"local-dir:{start}"
    model, prepare, _ = open_clip.create_model_and_transforms(name)
    tokenizer = open_clip.get_tokenizer(name)
    loss = open_clip.ClipLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    with captions.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    model.train()
    for _ in range(steps):
        some = [rows[at] for at in torch.randint(len(rows), (batch,)).tolist()]
        images = torch.stack([prepare(Image.open(captions.parent / row["file"]).convert("RGB")) for row in some])
        image_features, text_features, scale = model(images, tokenizer([row["caption"] for row in some]))
        optimizer.zero_grad()
        loss(image_features, text_features, scale).backward()
        optimizer.step()
    shutil.copytree(start, out, dirs_exist_ok=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out / WEIGHTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("captions", "start", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1000)
    known = parser.parse_args()
    train(known.captions, known.start, known.out, steps=known.steps)
