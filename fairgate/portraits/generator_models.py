"""The tiny Stable Diffusion's parts, in diffusers' and transformers' own classes, and the folders they are saved in.

One UNet evaluation takes an 8 x 8 latent of a 32 px picture. `docs/evidence/demonstration.md` gives its cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairgate.portraits.generator_words import CONTEXT, bpe, new_tokenizer
from fairgate.portraits.pool import SIDE

LATENT = 8
"""Side of their latents: the VAE's factor is 4."""
THREADS = 1
"""Training uses this many threads everywhere: sums of floats depend on their number. Stages can run in parallel."""

_WIDTH = 64
WORDS_APART = 25.0
"""Factor on initial word embeddings (standard deviation 0.02). At their own size all captions start out with a cosine
above 0.999, and a model this small takes hundreds of steps to distinguish them, or never does."""


def new_vae(seed: int) -> Any:
    """AutoencoderKL, 32 px to 4 x 8 x 8."""
    from diffusers import AutoencoderKL

    with seeded(seed):
        return AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            block_out_channels=(16, 32, 32),
            layers_per_block=1,
            latent_channels=4,
            norm_num_groups=4,
            sample_size=SIDE,
        )


def new_text_encoder(seed: int) -> Any:
    """CLIPTextModel of one layer over the own vocabulary."""
    from transformers import CLIPTextConfig, CLIPTextModel

    vocab, _ = bpe()
    end, start = vocab["<|endoftext|>"], vocab["<|startoftext|>"]
    config = CLIPTextConfig(
        vocab_size=len(vocab),
        hidden_size=_WIDTH,
        intermediate_size=2 * _WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        projection_dim=_WIDTH,
    )
    with seeded(seed):
        model = CLIPTextModel(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "embedding" in name:
                weights.mul_(WORDS_APART)
    return model


def new_unet(seed: int, *, channels: int = 4) -> Any:
    """UNet2DConditionModel with attention at 8 x 8 and in the middle; `channels` is 8 for the editor."""
    from diffusers import UNet2DConditionModel

    with seeded(seed):
        return UNet2DConditionModel(
            sample_size=LATENT,
            in_channels=channels,
            out_channels=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            block_out_channels=(48, 64),
            layers_per_block=1,
            cross_attention_dim=_WIDTH,
            attention_head_dim=2,  # diffusers reads it as the number of heads
            norm_num_groups=16,
        )


def new_scheduler() -> Any:
    """DDIM over Stable Diffusion's own noise schedule."""
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )


@contextmanager
def torch_threads(number: int = THREADS) -> Iterator[None]:
    """Run torch on so many threads, and on as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weights that are drawn meanwhile come from a seed. The global torch generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def save_pipeline(name: str, folder: Path, *, vae: Any, text_encoder: Any, unet: Any) -> None:
    """Write a folder that diffusers' pipeline class `name` loads with `from_pretrained`; VAE and UNet in float16.

    The text encoder stays in float32: transformers loads weights in the type that they were saved in.
    """
    import diffusers

    from fairgate.models.generation import quiet

    with quiet():
        pipeline = getattr(diffusers, name)(
            vae=vae.to(torch.float16),
            text_encoder=text_encoder,
            tokenizer=new_tokenizer(),
            unet=unet.to(torch.float16),
            scheduler=new_scheduler(),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        pipeline.save_pretrained(folder)
    for path in folder.glob("*/config.json"):  # a model is the same bytes wherever its parts were loaded from
        config = json.loads(path.read_text(encoding="utf-8"))
        if config.pop("_name_or_path", None) is not None:
            path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    write_slow_tokenizer(folder / "tokenizer")


def write_slow_tokenizer(folder: Path) -> None:
    """vocab.json and merges.txt next to tokenizer.json: what transformers 4 and other readers look for."""
    vocab, merges = bpe()
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def token_ids(tokenizer: Any, texts: list[str]) -> torch.Tensor:
    """Token ids (texts, CONTEXT), padded as the pipelines pad."""
    ids: torch.Tensor = tokenizer(
        texts, padding="max_length", max_length=CONTEXT, truncation=True, return_tensors="pt"
    ).input_ids
    return ids


def scaled(pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Pictures (n, height, width, 3) as (n, 3, height, width) in -1..1."""
    return torch.from_numpy(pictures.astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
