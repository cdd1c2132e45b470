"""Tiny pipelines of every class, with seeded random weights, saved as diffusers saves them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

WORDS = ("a", "photo", "of", "doctor", "nurse", "chef", "man", "woman", "person", "face", "make", "this", "more", "hat")
LENGTH = 16
SIDE = 32  # pixels; the VAE halves them twice, and the latents are 8 x 8
FACTOR = 4


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[BOS]": 0, "[EOS]": 1, "[UNK]": 2, **{word: 3 + k for k, word in enumerate(WORDS)}}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 0), ("[EOS]", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        bos_token="[BOS]",
        eos_token="[EOS]",
        pad_token="[EOS]",
        model_max_length=LENGTH,
    )


def text_encoder(width: int = 32, projected: bool = False) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=32,
        hidden_size=width,
        intermediate_size=37,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        projection_dim=32,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def vae() -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8, 8, 16),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=4,
        sample_size=SIDE,
        scaling_factor=0.5,
    )


def unet(channels: int = 4, width: int = 32, **more: Any) -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        block_out_channels=(16, 32),
        layers_per_block=1,
        sample_size=SIDE // FACTOR,
        in_channels=channels,
        out_channels=4,
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=width,
        attention_head_dim=(2, 4),
        **more,
    )


def xl_unet(channels: int, width: int, sizes: int) -> Any:
    """`sizes` numbers about the picture's size (6), or with an aesthetic score (5), and a pooled text of 32."""
    return unet(
        channels,
        width,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=32 + 8 * sizes,
        use_linear_projection=True,
    )


def _classic(scheduler: Any, channels: int = 4) -> dict[str, Any]:
    return {
        "vae": vae(),
        "text_encoder": text_encoder(),
        "tokenizer": tokenizer(),
        "unet": unet(channels),
        "scheduler": scheduler,
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
    }


def _xl(scheduler: Any, channels: int = 4) -> dict[str, Any]:
    return {
        "vae": vae(),
        "text_encoder": text_encoder(),
        "text_encoder_2": text_encoder(projected=True),
        "tokenizer": tokenizer(),
        "tokenizer_2": tokenizer(),
        "unet": xl_unet(channels, 64, 6),
        "scheduler": scheduler,
    }


BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
KINDS = ("sd1", "sd2", "sd_inpaint", "sdxl", "sdxl_inpaint", "refiner", "pix2pix")


def build(kind: str) -> Any:
    """A pipeline of diffusers with seeded random weights."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Euler-ancestral's own, about numpy 2
        torch.manual_seed(0)
        return _build(kind)


def _build(kind: str) -> Any:
    import diffusers as d

    euler = d.EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
    ddim = d.DDIMScheduler(**BETAS, clip_sample=False)
    made: Any = {
        "sd1": lambda: d.StableDiffusionPipeline(**_classic(d.PNDMScheduler(**BETAS, skip_prk_steps=True))),
        "sd2": lambda: d.StableDiffusionPipeline(
            **_classic(d.DDIMScheduler(**BETAS, prediction_type="v_prediction", clip_sample=False))
        ),
        "sd_inpaint": lambda: d.StableDiffusionInpaintPipeline(**_classic(ddim, 9)),
        "pix2pix": lambda: d.StableDiffusionInstructPix2PixPipeline(
            **_classic(d.EulerAncestralDiscreteScheduler(**BETAS), 8)
        ),
        "sdxl": lambda: d.StableDiffusionXLPipeline(**_xl(euler)),
        "sdxl_inpaint": lambda: d.StableDiffusionXLInpaintPipeline(**_xl(euler, 9)),
        "refiner": lambda: d.StableDiffusionXLImg2ImgPipeline(
            **{**_xl(euler), "text_encoder": None, "tokenizer": None, "unet": xl_unet(4, 32, 5)},
            requires_aesthetics_score=True,
            force_zeros_for_empty_prompt=False,
        ),
    }[kind]()
    return made


class Stock:
    """diffusers' own pipelines on the saved folders, each loaded once."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders, self._loaded = folders, dict[str, Any]()

    def __call__(self, kind: str, class_name: str) -> Any:
        import diffusers

        if kind not in self._loaded:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._loaded[kind] = diffusers.DiffusionPipeline.from_pretrained(self._folders[kind])
        loaded = self._loaded[kind]
        more = {
            key: loaded.config[key]
            for key in ("requires_safety_checker", "requires_aesthetics_score")
            if key in loaded.config
        }
        zeros = "force_zeros_for_empty_prompt"
        more |= {zeros: loaded.config[zeros]} if zeros in loaded.config else {}
        pipeline = getattr(diffusers, class_name)(**loaded.components, **more)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def picture(width: int = 40, height: int = 32) -> Image.Image:
    """A colourful one: a ramp in each direction, and a disc."""
    y, x = np.mgrid[0:height, 0:width]
    disc = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
    pixels = np.stack([255 * x / width, 255 * y / height, np.where(disc, 220, 40)], axis=-1)
    return Image.fromarray(pixels.astype(np.uint8))


def hole(width: int = 40, height: int = 32) -> np.ndarray:
    mask = np.zeros((height, width), dtype=bool)
    mask[height // 8 : 3 * height // 4, width // 6 : 3 * width // 4] = True
    return mask


def restyle(model: Any, image: Image.Image, prompts: Sequence[str], seeds: Sequence[int], how: Any) -> Any:
    """Variants of an image by a loaded model's img2img, of the image's size."""
    from fairgate.models.generation.diffusion.paint import at_size, made_latents, working_size

    size = working_size(image.size, model.vae_factor, how.size)
    shown: dict[str, Any] = {"image": at_size([image] * len(prompts), size), "strength": how.strength}
    return at_size(model.decode(made_latents(model, "Img2Img", prompts, how, seeds, **shown)), image.size)


def repaint(inpainter: Any, image: Image.Image, mask: np.ndarray, prompts: Sequence[str], seed: int, how: Any) -> Any:
    """Variants of an image, all of one noise."""
    times = len(prompts)
    return inpainter.inpaint([image] * times, [mask] * times, prompts, [seed] * times, how)


def difference(ours: Sequence[Image.Image], theirs: Sequence[Image.Image]) -> int:
    """The largest difference of any pixel, in levels of 255."""
    pairs = zip(ours, theirs, strict=True)
    return max(int(np.abs(np.asarray(a, int) - np.asarray(b, int)).max()) for a, b in pairs)
