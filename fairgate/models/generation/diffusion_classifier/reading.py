"""How a judged Stable Diffusion reads texts and pictures, as its hashed files say: digests of it, and which texts are
the same to it. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairgate.ground.hashing import digest
from fairgate.models.checkpoints import TOKENIZER_FILES, read_config
from fairgate.models.family import Numbers
from fairgate.models.generation.diffusion.files import PipelineFiles
from fairgate.models.input_digests import tokenizer_digest

_SAME_TEXT = 64 * 2.0**-23  # share of its length by which a token's state may differ by rounding, as of two towers

# what decides which noise is added, and how the UNet's answer is read, with the defaults of diffusers
_NOISING = {
    "num_train_timesteps": 1000,
    "prediction_type": "epsilon",
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "beta_schedule": "linear",
    "trained_betas": None,
    "rescale_betas_zero_snr": False,
}


def shown_how(files: PipelineFiles, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and what the hashed configs decide: how the UNet sees a picture, and how its answer is read."""
    unet, vae, noising = (
        read_config(path)
        for path in (
            files.folder / "unet" / "config.json",
            files.vae / "config.json",
            files.folder / "scheduler" / "scheduler_config.json",
        )
    )
    factor = 2 ** (len(vae.get("block_out_channels", (64,))) - 1)
    side = unet.get("sample_size") or 0
    return {
        "samples": settings["samples"],
        "stop": settings["stop"],
        "pixels": settings["size"] or (max(side) if isinstance(side, list) else int(side)) * factor,
        "vae_factor": factor,
        "latent_channels": vae.get("latent_channels", 4),
        "scaling_factor": vae.get("scaling_factor", 0.18215),
        "moments": [vae.get("latents_mean"), vae.get("latents_std")] if files.is_xl else None,
        "noising": {name: noising.get(name, default) for name, default in _NOISING.items()},
    }


def same_text(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> bool:
    """Whether the states of every token are equal up to rounding."""
    return all(
        bool((np.linalg.norm(one - other, axis=-1) <= _SAME_TEXT * np.linalg.norm(one, axis=-1)).all())
        for one, other in zip(ours, theirs, strict=True)
    )


def tokenizers_digest(found: PipelineFiles) -> str:
    """Of the pipeline's one or two tokenizers."""
    names = sorted(name for name in found.components if name.startswith("tokenizer"))
    files = {name: [path for path in (found.folder / name).glob("*") if path.name in TOKENIZER_FILES] for name in names}
    return digest({name: tokenizer_digest(sorted(paths)) for name, paths in files.items()})
