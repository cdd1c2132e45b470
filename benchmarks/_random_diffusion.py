"""Stable Diffusion 1.5 and XL with random weights, at their published sizes and tiny, saved as diffusers saves them."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diffusers
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, PreTrainedTokenizerFast

_BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}


@dataclass(frozen=True)
class Kind:
    """A pipeline's architecture. `encoders` are (width, feed-forward width, layers, heads) of its text encoders."""

    name: str
    pixels: int
    steps: int
    guidance: float
    unet: dict[str, Any]
    vae_widths: tuple[int, ...]
    encoders: tuple[tuple[int, int, int, int], ...]
    groups: int = 32
    published: str = ""
    vae: dict[str, Any] = field(default_factory=dict)

    @property
    def vae_factor(self) -> int:
        return 2 ** (len(self.vae_widths) - 1)

    @property
    def is_xl(self) -> bool:
        return len(self.encoders) == 2

    @property
    def pooled(self) -> int:
        """Width of the pooled text that an SDXL is told; 0 for others."""
        return self.encoders[-1][0] if self.is_xl else 0


def _blocks(attention: str, *widths: int, xl: bool = False) -> dict[str, Any]:
    """Down and up blocks: "a" with cross-attention, "-" without."""
    down = tuple("CrossAttnDownBlock2D" if one == "a" else "DownBlock2D" for one in attention)
    up = tuple("CrossAttnUpBlock2D" if one == "a" else "UpBlock2D" for one in reversed(attention))
    more = {"use_linear_projection": True, "addition_embed_type": "text_time"} if xl else {}
    return {"down_block_types": down, "up_block_types": up, "block_out_channels": widths, **more}


_CLIP_L, _BIG_G = (768, 3072, 12, 12), (1280, 5120, 32, 20)
_SMALL = (32, 64, 2, 4)
KINDS = {
    "full": (
        Kind(
            *("SD 1.5", 512, 50, 7.5),
            {**_blocks("aaa-", 320, 640, 1280, 1280), "cross_attention_dim": 768, "attention_head_dim": 8},
            (128, 256, 512, 512),
            (_CLIP_L,),
            published="(the design counts with 0.80)",
        ),
        Kind(
            *("SDXL", 1024, 40, 5.0),
            {
                **_blocks("-aa", 320, 640, 1280, xl=True),
                "cross_attention_dim": 2048,
                "attention_head_dim": (5, 10, 20),
                "transformer_layers_per_block": (1, 2, 10),
                "addition_time_embed_dim": 256,
                "projection_class_embeddings_input_dim": 1280 + 6 * 256,
            },
            (128, 256, 512, 512),
            (_CLIP_L, _BIG_G),
            published="(the design counts with 6.76)",
            vae={"scaling_factor": 0.13025, "force_upcast": True},
        ),
    ),
    "tiny": (
        Kind(
            *("tiny SD", 64, 50, 7.5),
            {**_blocks("-a", 16, 32), "cross_attention_dim": 32, "attention_head_dim": 4, "layers_per_block": 1},
            (8, 8, 16),
            (_SMALL,),
            groups=8,
        ),
        Kind(
            *("tiny SDXL", 64, 40, 5.0),
            {
                **_blocks("-a", 16, 32, xl=True),
                "cross_attention_dim": 64,
                "attention_head_dim": (2, 4),
                "layers_per_block": 1,
                "addition_time_embed_dim": 8,
                "projection_class_embeddings_input_dim": 32 + 6 * 8,
            },
            (8, 8, 16),
            (_SMALL, _SMALL),
            groups=8,
        ),
    ),
}


def save_random(kind: Kind, folder: Path, device: str) -> None:
    """Make the pipeline on the device, where random numbers are quick, and save it in half the bytes there."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    torch.manual_seed(0)
    with torch.device(device):
        unet = diffusers.UNet2DConditionModel(
            sample_size=kind.pixels // kind.vae_factor, norm_num_groups=kind.groups, **kind.unet
        ).to(dtype)
        vae = diffusers.AutoencoderKL(
            block_out_channels=kind.vae_widths,
            down_block_types=("DownEncoderBlock2D",) * len(kind.vae_widths),
            up_block_types=("UpDecoderBlock2D",) * len(kind.vae_widths),
            latent_channels=4,
            layers_per_block=2,
            norm_num_groups=min(kind.groups, kind.vae_widths[0]),
            sample_size=kind.pixels,
            **kind.vae,
        ).to(dtype)
        encoders = [_text_encoder(shape, projected=number == 1).to(dtype) for number, shape in enumerate(kind.encoders)]
    parts: dict[str, Any] = {"unet": unet, "vae": vae}
    for suffix, encoder in zip(("", "_2"), encoders, strict=False):
        parts |= {f"text_encoder{suffix}": encoder, f"tokenizer{suffix}": _tokenizer()}
    if kind.is_xl:
        parts["scheduler"] = diffusers.EulerDiscreteScheduler(**_BETAS, timestep_spacing="leading")
        diffusers.StableDiffusionXLPipeline(**parts).save_pretrained(folder)
        return
    parts |= {"scheduler": diffusers.PNDMScheduler(**_BETAS, skip_prk_steps=True), "requires_safety_checker": False}
    diffusers.StableDiffusionPipeline(**parts, safety_checker=None, feature_extractor=None).save_pretrained(folder)


def _text_encoder(shape: tuple[int, int, int, int], projected: bool) -> Any:
    width, wide, layers, heads = shape
    config = CLIPTextConfig(
        vocab_size=49408,
        hidden_size=width,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        projection_dim=width,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def _tokenizer() -> Any:
    """77 tokens, a letter each: what a prompt says does not change what it costs."""
    letters = {letter: 3 + place for place, letter in enumerate(string.ascii_lowercase)}
    made = Tokenizer(models.WordLevel({"[BOS]": 0, "[EOS]": 1, "[UNK]": 2, **letters}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 0), ("[EOS]", 1)]
    )
    named = {"unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[EOS]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=77, **named)
