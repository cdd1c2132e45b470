"""Train a tiny ViT by self-distillation (DINO, Caron et al. 2021) on drawn photographs, in three minutes of one core.

It is the matcher of the build `gensynth-dino-embedded`: what paper 5's appendix F does with DINO ViT-B/16, on the
embedded world. Run it where the build is to run:

    python examples/gensynth/train_dino.py --out build/portraits/dino \
        --compare open_clip:local-dir:build/portraits/checkpoints/base

The photographs are drawn for it: none of them is among those that a build edits, and no caption or label is read. The
folder is transformers' own layout, without the pooling layer, as DINO's ViT was published.
"""

from __future__ import annotations

import argparse
import copy
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from transformers import ViTConfig, ViTImageProcessor, ViTModel

from fairgate.models.generation import open_model
from fairgate.portraits.photos import DrawnPhoto, draw_photo
from fairgate.portraits.world import SUBJECTS

SIDE, PATCH, WIDTH = 32, 8, 96
"""Pixels of a picture and of a patch, and numbers in an embedding."""
GLOBALS, LOCALS, LOCAL_SIDE = 2, 4, 16
"""Crops of a picture at each step: the teacher sees the global ones, the student all of them."""
GLOBAL_SCALE, LOCAL_SCALE = (0.5, 1.0), (0.15, 0.5)
"""Shares of the picture's area that a crop shows."""
PROTOTYPES = 256
STUDENT_TEMPERATURE, TEACHER_TEMPERATURE = 0.1, 0.04
MOMENTUM, CENTRE_MOMENTUM = 0.99, 0.9
BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 1e-3, 0.04
SEED = 1
"""Of the photographs, too: builds are made of those with seed 0, and the next seed's show what was learned."""


class Head(nn.Module):
    """DINO's projection: three layers, unit length, prototypes of unit length."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 64)]
        self.layers = nn.Sequential(*layers)
        self.prototypes = nn.Parameter(torch.randn(PROTOTYPES, 64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(pictures, PROTOTYPES) cosines."""
        return functional.normalize(self.layers(tokens), dim=1) @ functional.normalize(self.prototypes, dim=1).T


def class_tokens(vit: ViTModel, pictures: torch.Tensor) -> torch.Tensor:
    """What the matcher embeds a picture as, (pictures, WIDTH)."""
    found: torch.Tensor = vit(pixel_values=pictures, interpolate_pos_encoding=True).last_hidden_state[:, 0]
    return found


def crops_of(drawn: DrawnPhoto) -> list[Image.Image]:
    """The persons' boxes of a photograph."""
    return [
        drawn.image.crop((round(left), round(top), round(left + width), round(top + height)))
        for left, top, width, height in drawn.boxes
    ]


def people(photos: int) -> torch.Tensor:
    """The persons of `photos` drawn photographs of every occupation, (people, 3, SIDE, SIDE) in -1 to 1."""
    drawn = (draw_photo(SEED, subject, number) for subject in SUBJECTS for number in range(photos))
    found = [np.asarray(crop.resize((SIDE, SIDE))) for one in drawn for crop in crops_of(one)]
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).float() / 127.5 - 1


def alike(uri: str, photos: int = 60, neighbours: int = 24) -> dict[str, float]:
    """What a matcher separates, of `photos` new photographs of every occupation with one person each: the share of a
    person's `neighbours` nearest that are of the same gender, and of the same occupation; the second number is what
    chance has.
    """
    drawn = [draw_photo(SEED + 1, subject, number) for subject in SUBJECTS for number in range(photos)]
    drawn = [one for one in drawn if len(one.boxes) == 1]
    vectors = open_model("matcher", uri, device="cpu").embed_images([crops_of(one)[0] for one in drawn])
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -2.0)
    nearest = np.argsort(-cosines, axis=1)[:, :neighbours]
    found = {}
    for name in ("gender", "subject"):
        labels = np.array([getattr(one, name) for one in drawn])
        same = labels[:, None] == labels[None, :]
        found[name] = float(np.take_along_axis(same, nearest, axis=1).mean())
        found[f"{name} by chance"] = float((same.sum() - len(labels)) / (len(labels) * (len(labels) - 1)))
    return found


def crops(pictures: torch.Tensor, side: int, scale: tuple[float, float], draws: torch.Generator) -> torch.Tensor:
    """A random square of each picture, mirrored half of the time, lit and coloured anew."""

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(len(pictures), *shape, generator=draws)

    half = uniform(*scale).sqrt()
    place = torch.zeros(len(pictures), 2, 3)
    place[:, 0, 0] = half * torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    place[:, 1, 1] = half
    place[:, :, 2] = uniform(-1, 1, 2) * (1 - half)[:, None]
    grid = functional.affine_grid(place, [len(pictures), 3, side, side], align_corners=False)
    seen = functional.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
    return (seen * uniform(0.8, 1.2, 3, 1, 1) + uniform(-0.15, 0.15, 1, 1, 1)).clamp(-1, 1)


def train(pictures: torch.Tensor, steps: int) -> ViTModel:
    """The teacher after `steps` steps of self-distillation."""
    torch.manual_seed(SEED)
    draws = torch.Generator().manual_seed(SEED)
    shape = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 4, "num_attention_heads": 3}
    student = ViTModel(ViTConfig(**shape, image_size=SIDE, patch_size=PATCH), add_pooling_layer=False)
    head = Head()
    teacher, teacher_head = copy.deepcopy(student).requires_grad_(False), copy.deepcopy(head).requires_grad_(False)
    learned, followed = [*student.parameters(), *head.parameters()], [*teacher.parameters(), *teacher_head.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    centre = torch.zeros(PROTOTYPES)
    for step in range(steps):
        done = step / steps
        rate = LEARNING_RATE * min(1.0, 10 * done + 1 / steps) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = pictures[torch.randint(len(pictures), (BATCH,), generator=draws)]
        large = torch.cat([crops(batch, SIDE, GLOBAL_SCALE, draws) for _ in range(GLOBALS)])
        small = torch.cat([crops(batch, LOCAL_SIDE, LOCAL_SCALE, draws) for _ in range(LOCALS)])
        with torch.no_grad():
            logits = teacher_head(class_tokens(teacher, large))
            wanted = ((logits - centre) / TEACHER_TEMPERATURE).softmax(dim=1).chunk(GLOBALS)
            centre = CENTRE_MOMENTUM * centre + (1 - CENTRE_MOMENTUM) * logits.mean(dim=0)
        seen = head(torch.cat([class_tokens(student, large), class_tokens(student, small)]))
        said = (seen / STUDENT_TEMPERATURE).log_softmax(dim=1).chunk(GLOBALS + LOCALS)
        pairs = [(one, other) for one in range(GLOBALS) for other in range(GLOBALS + LOCALS) if one != other]
        loss = torch.stack([-(wanted[one] * said[other]).sum(dim=1).mean() for one, other in pairs]).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(learned, 3.0)
        optimizer.step()
        momentum = 1 - (1 - MOMENTUM) * 0.5 * (1 + math.cos(math.pi * done))
        with torch.no_grad():
            for old, new in zip(followed, learned, strict=True):
                old.mul_(momentum).add_(new, alpha=1 - momentum)
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}  (an even guess: {math.log(PROTOTYPES):.3f})")
    return teacher.eval()


def save(vit: ViTModel, folder: Path) -> None:
    """For `hf:FOLDER` as a matcher."""
    vit.save_pretrained(folder)
    half = [0.5, 0.5, 0.5]
    size = {"height": SIDE, "width": SIDE}
    ViTImageProcessor(size=size, image_mean=half, image_std=half).save_pretrained(folder)


def main() -> None:
    """Draw, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the new model")
    parser.add_argument("--photos", type=int, default=300, help="photographs of every occupation")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--compare", nargs="*", default=[], help="other matchers, whose neighbours are counted too")
    chosen = parser.parse_args()
    if chosen.out.exists():
        parser.error(f"--out {chosen.out} is there already: name a new folder")
    save(train(people(chosen.photos), chosen.steps), chosen.out)
    print(f"trained: {chosen.out}")
    for uri in (f"hf:{chosen.out.resolve()}", *chosen.compare):
        shares = ", ".join(f"{name} {share:.3f}" for name, share in alike(uri).items())
        print(f"nearest people that are alike, {uri}: {shares}")


if __name__ == "__main__":
    main()
