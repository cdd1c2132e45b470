"""A FLUX of a few kilobytes with random weights, as diffusers saves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from diffusion_world import text_encoder, tokenizer

SIDE = 32  # pixels; the VAE halves them twice, and the transformer packs two by two


def build(guided: bool = True) -> Any:
    import diffusers as d
    from transformers import T5Config, T5EncoderModel

    with torch.random.fork_rng():
        torch.manual_seed(3)
        vae = d.AutoencoderKL(
            block_out_channels=(8, 8, 16),
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            latent_channels=4,
            layers_per_block=1,
            norm_num_groups=4,
            scaling_factor=0.5,
            shift_factor=0.1,
            use_quant_conv=False,
            use_post_quant_conv=False,
        )
        transformer = d.FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=24,
            pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=guided,
        )
        words: dict[str, Any] = {
            "vocab_size": 32,
            "d_model": 24,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
        }
        words |= {"pad_token_id": 1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu"}
        return d.FluxPipeline(
            scheduler=d.FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=guided),
            vae=vae,
            text_encoder=text_encoder(),
            tokenizer=tokenizer(),
            text_encoder_2=T5EncoderModel(T5Config(**words)),
            tokenizer_2=tokenizer(),
            transformer=transformer,
        )


def save_flux(folder: Path, guided: bool = True) -> Path:
    build(guided).save_pretrained(folder)
    return folder
