"""Training of the substitute networks on drawn portraits, spoilt ones, and pictures of the tiny generator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from fairgate.ground.randomness import stream
from fairgate.portraits.generator import open_pipeline, paint
from fairgate.portraits.generator_models import scaled, seeded, torch_threads
from fairgate.portraits.generator_training import Report, one_cycle
from fairgate.portraits.pool import small
from fairgate.portraits.standin_data import (
    SEED,
    Composite,
    Material,
    Portrait,
    blurred,
    compose,
    distorted,
    draw_portraits,
    noisy,
)
from fairgate.portraits.standin_nets import FIND, GRID, KINDS, LOOK, NOTHING, READ, face_chip, new_net, pixels, save
from fairgate.portraits.world import GROUPS, LABELS, SUBJECTS, caption

STEPS = {"asker": 1200, "finder": 1200, "reader": 1000}
BATCH = {"asker": 64, "finder": 32, "reader": 64}
LEARNING_RATE = 4e-3


def asker_loss(net: Any, material: Material, rng: np.random.Generator) -> torch.Tensor:
    """Outputs: every label and nothing, then limbs distorted, then real."""
    shown = [_example(rng, material) for _ in range(BATCH["asker"])]
    out = net(scaled(np.stack([one[0] for one in shown])))
    labels = torch.tensor([one[1] for one in shown])
    answers = torch.tensor([one[2:] for one in shown])
    named = functional.cross_entropy(out[:, : NOTHING + 1], labels, ignore_index=-1, label_smoothing=0.02)
    known = (answers >= 0).float()
    raw = functional.binary_cross_entropy_with_logits(
        out[:, NOTHING + 1 :], 0.02 + 0.96 * answers.clamp(min=0), reduction="none"
    )
    return named + 2 * (raw * known).sum() / known.sum()


def _example(rng: np.random.Generator, material: Material) -> tuple[NDArray[np.uint8], int, float, float]:
    """A picture of LOOK px, its label, whether its limbs are distorted and whether it is real; -1 is not known."""
    kind = rng.random()
    if kind < 0.06:
        while (empty := compose(rng, material)).boxes:
            pass
        return pixels(Image.fromarray(empty.picture), LOOK), NOTHING, 0.0, -1.0
    if kind < 0.2:
        painted = Image.fromarray(material.painted[int(rng.integers(len(material.painted)))])
        if rng.random() < 0.5:
            return _shaken(rng, distorted(painted, rng)), -1, 1.0, -1.0
        return _shaken(rng, painted), -1, 0.0, 0.0
    who, picture, soft = material.pick(rng, 0.35)
    label = LABELS.index(who.label)
    if kind < 0.5:
        return _shaken(rng, distorted(picture, rng)), label, 1.0, -1.0
    if kind < 0.6:
        spoil = blurred if rng.random() < 0.5 else noisy
        return _shaken(rng, spoil(picture, rng)), label, 0.0, 0.0
    return _shaken(rng, picture), label, 0.0, 0.0 if soft else 1.0


def _shaken(rng: np.random.Generator, picture: Image.Image) -> NDArray[np.uint8]:
    """The picture at LOOK px, shifted a little and lit a little otherwise."""
    shown = pixels(picture, LOOK).astype(np.float32)
    across, down = rng.integers(-2, 3, size=2)
    shown = np.pad(shown, ((2, 2), (2, 2), (0, 0)), mode="edge")[2 + down :, 2 + across :][:LOOK, :LOOK]
    out: NDArray[np.uint8] = np.clip(shown * rng.uniform(0.95, 1.05), 0, 255).astype(np.uint8)
    return out


def reader_loss(net: Any, material: Material, rng: np.random.Generator) -> torch.Tensor:
    """Outputs: the groups of skin tone, gender and age, one after the other."""
    chips, truths = zip(*(_chip(rng, material) for _ in range(BATCH["reader"])), strict=True)
    parts = net(scaled(np.stack(chips))).split([len(groups) for groups in READ.values()], dim=1)
    losses = [
        functional.cross_entropy(part, torch.tensor([truth[name] for truth in truths]), label_smoothing=0.02)
        for name, part in zip(READ, parts, strict=True)
    ]
    return torch.stack(losses).sum()


def _chip(rng: np.random.Generator, material: Material) -> tuple[NDArray[np.uint8], dict[str, int]]:
    who, picture, _ = material.pick(rng, 0.4)
    scale = picture.width / 96
    wide, high = (who.face[2] - who.face[0]) * scale, (who.face[3] - who.face[1]) * scale
    loose = rng.normal(0, 0.06, 4) * (wide, high, wide, high)
    box = tuple(float(edge * scale + shift) for edge, shift in zip(who.face, loose, strict=True))
    chip = np.clip(face_chip(picture, box).astype(np.float32) * rng.uniform(0.97, 1.03), 0, 255).astype(np.uint8)
    return chip, {name: groups.index(getattr(who, name)) for name, groups in READ.items()}


def finder_loss(net: Any, material: Material, rng: np.random.Generator) -> torch.Tensor:
    """Centres by a focal loss, edges where a centre is, the mask by its cross-entropy."""
    shown = [compose(rng, material) for _ in range(BATCH["finder"])]
    heat, edges, at = (torch.from_numpy(np.stack(part)) for part in zip(*map(_wanted, shown), strict=True))
    mask = torch.from_numpy(np.stack([one.mask for one in shown])).float()
    centres, found_edges, outline = net(scaled(np.stack([one.picture for one in shown])))
    p = centres.sigmoid().clamp(1e-4, 1 - 1e-4)
    focal = torch.where(at, (1 - p) ** 2 * p.log(), (1 - heat) ** 4 * p**2 * (1 - p).log())
    held = at[:, :, None].expand_as(edges)
    off = (found_edges[held] - edges[held]).abs().mean()
    wanted_mask = functional.avg_pool2d(mask[:, None], 2)[:, 0]
    filled = functional.binary_cross_entropy_with_logits(outline, wanted_mask)
    loss: torch.Tensor = -focal.sum() / at.sum() + 0.5 * off + 2 * filled
    return loss


def _wanted(composite: Composite) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Heat around centres (kinds, GRID, GRID), edges (kinds, 4, GRID, GRID) in cells, and which cells are centres."""
    heat = np.zeros((len(KINDS), GRID, GRID), np.float32)
    edges = np.zeros((len(KINDS), 4, GRID, GRID), np.float32)
    at = np.zeros((len(KINDS), GRID, GRID), bool)
    rows, columns = np.mgrid[:GRID, :GRID] + 0.5
    for kind, box in (found for boxes in composite.boxes for found in enumerate(boxes)):
        left, top, right, bottom = (value * GRID / FIND for value in box)
        column, row = min(int((left + right) / 2), GRID - 1), min(int((top + bottom) / 2), GRID - 1)
        x, y = column + 0.5, row + 0.5
        spread = 0.12 * np.sqrt((right - left) * (bottom - top)) + 0.3
        near = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * spread**2))
        np.maximum(heat[kind], near, out=heat[kind], casting="unsafe")
        at[kind, row, column] = True
        edges[kind, :, row, column] = (x - left, y - top, right - x, bottom - y)
    return heat, edges, at


PAINTED = 768
"""Pictures of the generator's that the asker learns to call fake."""
_FIRST_SEED = 1 << 20
"""First seed of those pictures: recipes and tests paint from smaller ones."""


def make_standins(folder: Path, generator: Path, report: Report) -> None:
    """Draw, paint with the generator at `generator`, train the three nets, and save them to `folder`."""
    portraits = draw_portraits()
    with torch_threads():
        pipeline = open_pipeline(generator)
        material = Material(portraits, soften(pipeline.vae, portraits), _painted(pipeline))
        nets = {}
        for name, loss_of in {"asker": asker_loss, "finder": finder_loss, "reader": reader_loss}.items():
            with seeded(SEED):
                nets[name] = net = new_net(name)
            draw_loss = partial(loss_of, net, material, stream(SEED, "portraits", "standins", name))
            one_cycle(net, draw_loss, STEPS[name], LEARNING_RATE, weight_decay=1e-2, after=partial(report, name))
            net.eval()
    save(nets, folder)


def soften(vae: Any, portraits: list[Portrait]) -> NDArray[np.uint8]:
    """Portraits at the generator's size as its VAE gives them back, (n, SIDE, SIDE, 3)."""
    pictures = np.stack([small(Image.fromarray(one.picture)) for one in portraits])
    parts = []
    with torch.inference_mode():
        for part in torch.split(scaled(pictures), 128):
            rebuilt = (vae.decode(vae.encode(part).latent_dist.mean).sample.clamp(-1, 1) + 1) * 127.5
            parts.append(rebuilt.round().byte().permute(0, 2, 3, 1).numpy())
    return np.concatenate(parts)


def _painted(pipeline: Any) -> NDArray[np.uint8]:
    """Pictures of all labels and groups, the five subjects twice as often."""
    rng = stream(SEED, "portraits", "standins", "prompts")
    labels = [*LABELS, *SUBJECTS]
    prompts = []
    for _ in range(PAINTED):
        skin_tone, gender = GROUPS[int(rng.integers(len(GROUPS)))]
        prompts.append(caption(labels[int(rng.integers(len(labels)))], skin_tone=skin_tone, gender=gender))
    return paint(pipeline, prompts, range(_FIRST_SEED, _FIRST_SEED + PAINTED))
