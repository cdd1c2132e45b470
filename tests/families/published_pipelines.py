"""Pipelines of diffusers for which fairgate has no code, tiny: what the library's own call paints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import diffusion_world
import vlm_world
from differential_models import Layout
from differential_painting import _LEVEL, SIDE, _paint, _painted

_TEXT = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
_TEXT |= {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512}


def _t5(t: Any, width: int = 16) -> Any:
    words = {"d_model": width, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    return t.T5EncoderModel(t.T5Config(vocab_size=32, pad_token_id=1, eos_token_id=1, **words))


def _chatting() -> Any:
    """A tokenizer with a chat template, of texts of any length."""
    words = vlm_world.tokenizer()
    words.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return words


def _vae(d: Any, channels: int = 4, **more: Any) -> Any:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3}
    sizes = {"block_out_channels": (8, 8, 16), "layers_per_block": 1, "norm_num_groups": 4, "scaling_factor": 0.5}
    return d.AutoencoderKL(latent_channels=channels, **blocks, **sizes, **more)


def sd3(d: Any, t: Any) -> Any:
    sizes = diffusion_world.text_encoder(projected=True).config.to_dict()
    encoders = [t.CLIPTextModelWithProjection(t.CLIPTextConfig(**{**sizes, "projection_dim": 16})) for _ in range(2)]
    transformer = d.SD3Transformer2DModel(
        **{"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_layers": 1},
        **{"attention_head_dim": 8, "num_attention_heads": 2, "caption_projection_dim": 16},
        **{"joint_attention_dim": 64, "pooled_projection_dim": 32},
    )
    return d.StableDiffusion3Pipeline(
        **{"transformer": transformer, "scheduler": d.FlowMatchEulerDiscreteScheduler()},
        **{"text_encoder": encoders[0], "text_encoder_2": encoders[1], "text_encoder_3": _t5(t, 64)},
        **{name: diffusion_world.tokenizer() for name in ("tokenizer", "tokenizer_2", "tokenizer_3")},
        vae=_vae(d, shift_factor=0.1, use_quant_conv=False, use_post_quant_conv=False),
    )


def pixart_sigma(d: Any, t: Any) -> Any:
    transformer = d.PixArtTransformer2DModel(
        **{"sample_size": 32, "patch_size": 2, "in_channels": 4, "out_channels": 8, "num_layers": 2},
        **{"attention_head_dim": 8, "num_attention_heads": 2, "cross_attention_dim": 16, "caption_channels": 16},
        **{"norm_type": "ada_norm_single", "num_embeds_ada_norm": 1000, "norm_elementwise_affine": False},
    )
    words = diffusion_world.tokenizer()
    return d.PixArtSigmaPipeline(words, _t5(t), _vae(d), transformer, d.DPMSolverMultistepScheduler())


def sana(d: Any, t: Any) -> Any:
    transformer = d.SanaTransformer2DModel(
        **{"patch_size": 1, "in_channels": 4, "out_channels": 4, "num_layers": 1, "sample_size": 16},
        **{"num_attention_heads": 2, "attention_head_dim": 8, "num_cross_attention_heads": 2},
        **{"cross_attention_head_dim": 8, "cross_attention_dim": 16, "caption_channels": 16},
    )
    blocks = {f"{part}_block_types": ("ResBlock", "ResBlock", "EfficientViTBlock") for part in ("encoder", "decoder")}
    sizes = {f"{part}_block_out_channels": (8, 8, 16) for part in ("encoder", "decoder")}
    sizes |= {f"{part}_layers_per_block": (1, 1, 1) for part in ("encoder", "decoder")}
    scales = {f"{part}_qkv_multiscales": ((), (), (5,)) for part in ("encoder", "decoder")}
    kinds = {"downsample_block_type": "conv", "upsample_block_type": "interpolate"}
    vae = d.AutoencoderDC(
        latent_channels=4, attention_head_dim=8, scaling_factor=0.4, **blocks, **sizes, **scales, **kinds
    )
    words = _chatting()
    encoder = t.Gemma2Model(t.Gemma2Config(vocab_size=len(words), **_TEXT))
    return d.SanaPipeline(words, encoder, vae, transformer, d.FlowMatchEulerDiscreteScheduler(shift=3.0))


def z_image(d: Any, t: Any) -> Any:
    import torch

    transformer = d.ZImageTransformer2DModel(
        **{"all_patch_size": (2,), "all_f_patch_size": (1,), "in_channels": 4, "dim": 16, "cap_feat_dim": 16},
        **{"n_layers": 2, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2},
        **{"axes_dims": [4, 2, 2], "axes_lens": [1024, 32, 32]},
    )
    for name in ("x_pad_token", "cap_pad_token"):  # made by torch.empty
        torch.nn.init.normal_(getattr(transformer, name))
    words = _chatting()
    encoder = t.Qwen3Model(t.Qwen3Config(vocab_size=len(words), **_TEXT))
    return d.ZImagePipeline(d.FlowMatchEulerDiscreteScheduler(), _vae(d, shift_factor=0.1), encoder, words, transformer)


def qwen_image(d: Any, t: Any) -> Any:
    transformer = d.QwenImageTransformer2DModel(
        **{"patch_size": 2, "in_channels": 16, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16},
        **{"num_attention_heads": 2, "joint_attention_dim": 16, "axes_dims_rope": (8, 4, 4)},
    )
    sizes = {
        "base_dim": 8,
        "z_dim": 4,
        "dim_mult": [1, 2, 4],
        "num_res_blocks": 1,
        "temperal_downsample": [False, True],
    }
    vae = d.AutoencoderKLQwenImage(**sizes, latents_mean=[0.0] * 4, latents_std=[1.0] * 4)
    words, rope = _chatting(), {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    text = {**_TEXT, "vocab_size": len(words), "rope_parameters": rope}
    encoder = t.Qwen2_5_VLForConditionalGeneration(t.Qwen2_5_VLConfig(text_config=text, vision_config=vision))
    return d.QwenImagePipeline(d.FlowMatchEulerDiscreteScheduler(), vae, encoder, words, transformer)


def flux2_klein(d: Any, t: Any) -> Any:
    import torch

    transformer = d.Flux2Transformer2DModel(
        **{"patch_size": 1, "in_channels": 16, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16},
        **{"num_attention_heads": 2, "joint_attention_dim": 48, "axes_dims_rope": [4, 4, 4, 4]},
    )
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 3, "up_block_types": ("UpDecoderBlock2D",) * 3}
    sizes = {"block_out_channels": (8, 8, 16), "layers_per_block": 1, "norm_num_groups": 4, "latent_channels": 4}
    vae = d.AutoencoderKLFlux2(**blocks, **sizes, use_quant_conv=False, use_post_quant_conv=False)
    torch.nn.init.ones_(vae.bn.running_var)
    words = _chatting()
    encoder = t.Qwen3ForCausalLM(t.Qwen3Config(vocab_size=len(words), **{**_TEXT, "num_hidden_layers": 28}))
    return d.Flux2KleinPipeline(d.FlowMatchEulerDiscreteScheduler(), vae, encoder, words, transformer)


_PIPELINES: Mapping[str, Callable[[Any, Any], Any]] = {
    "stabilityai/stable-diffusion-3-medium-diffusers": sd3,
    "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS": pixart_sigma,
    "Efficient-Large-Model/Sana_1600M_1024px_diffusers": sana,
    "Tongyi-MAI/Z-Image": z_image,
    "Qwen/Qwen-Image": qwen_image,
    "black-forest-labs/FLUX.2-klein-4B": flux2_klein,
}


def _layout(make: Callable[[Any, Any], Any]) -> Layout:
    def save(root: Path) -> str:
        import diffusers
        import torch
        import transformers

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            make(diffusers, transformers).save_pretrained(root / "pipeline")
        return f"diffusion:pipeline?size={SIDE}"

    library = _paint("pipeline", height=SIDE, width=SIDE)
    weights = "transformer/diffusion_pytorch_model.safetensors"
    return Layout(save, "pipeline", weights, library, _painted, near=_LEVEL)


def pipeline_rows() -> dict[str, Layout]:
    """By the published name."""
    return {name: _layout(make) for name, make in _PIPELINES.items()}
