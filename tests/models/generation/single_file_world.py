"""A pipeline in one file: the tensors of a folder of diffusers under the names that CompVis and SDXL gave them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

_RESNET = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0"}
_RESNET |= {"conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
_UNET = {  # of two blocks of one layer: where the parts of each are among the blocks of the original
    **{"conv_in": "input_blocks.0.0", "time_embedding.linear_1": "time_embed.0", "conv_norm_out": "out.0"},
    **{"conv_out": "out.2", "time_embedding.linear_2": "time_embed.2", "add_embedding.linear_1": "label_emb.0.0"},
    **{"add_embedding.linear_2": "label_emb.0.2", "down_blocks.0.resnets.0": "input_blocks.1.0"},
    **{"down_blocks.0.downsamplers.0.conv": "input_blocks.2.0.op", "down_blocks.1.resnets.0": "input_blocks.3.0"},
    **{"down_blocks.1.attentions.0": "input_blocks.3.1", "mid_block.resnets.0": "middle_block.0"},
    **{"mid_block.attentions.0": "middle_block.1", "mid_block.resnets.1": "middle_block.2"},
    **{f"up_blocks.0.resnets.{k}": f"output_blocks.{k}.0" for k in (0, 1)},
    **{f"up_blocks.0.attentions.{k}": f"output_blocks.{k}.1" for k in (0, 1)},
    **{"up_blocks.0.upsamplers.0.conv": "output_blocks.1.2.conv"},
    **{f"up_blocks.1.resnets.{k}": f"output_blocks.{k + 2}.0" for k in (0, 1)},
}
_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
_OPEN_CLIP = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj"}
_OPEN_CLIP |= {"mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}


def _unet(name: str) -> str:
    part = next(part for part in sorted(_UNET, key=len, reverse=True) if name.startswith(f"{part}."))
    rest = name.removeprefix(f"{part}.")
    layer = rest.rpartition(".")[0]
    inner = rest.replace(layer, _RESNET[layer], 1) if ".resnets." in name else rest
    return f"model.diffusion_model.{_UNET[part]}.{inner}"


def _vae(name: str, blocks: int) -> str:
    found = re.sub(r"encoder\.down_blocks\.(\d)\.resnets\.(\d)", r"encoder.down.\1.block.\2", name)
    found = re.sub(r"encoder\.down_blocks\.(\d)\.downsamplers\.0", r"encoder.down.\1.downsample", found)
    for block in range(blocks):
        up = f"decoder.up.{blocks - 1 - block}"
        found = found.replace(f"decoder.up_blocks.{block}.resnets", f"{up}.block")
        found = found.replace(f"decoder.up_blocks.{block}.upsamplers.0", f"{up}.upsample")
    found = re.sub(r"mid_block\.resnets\.(\d)", lambda match: f"mid.block_{int(match[1]) + 1}", found)
    if "mid_block.attentions.0." in found:
        before, _, layer = found.rpartition("mid_block.attentions.0.")
        layer, _, kind = layer.rpartition(".")
        found = f"{before}mid.attn_1.{_ATTENTION[layer]}.{kind}"
    return "first_stage_model." + found.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")


def _open_clip(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    import torch

    found = {}
    plain = {name.removeprefix("text_model."): value for name, value in state.items()}
    found["token_embedding.weight"] = plain["embeddings.token_embedding.weight"]
    found["positional_embedding"] = plain["embeddings.position_embedding.weight"]
    found["text_projection"] = plain["text_projection.weight"].T
    found |= {f"ln_final.{kind}": plain[f"final_layer_norm.{kind}"] for kind in ("weight", "bias")}
    for name, value in plain.items():
        if match := re.fullmatch(r"encoder\.layers\.(\d)\.(.+)\.(weight|bias)", name):
            at = f"transformer.resblocks.{match[1]}"
            if match[2] in _OPEN_CLIP:
                found[f"{at}.{_OPEN_CLIP[match[2]]}.{match[3]}"] = value
            elif match[2] == "self_attn.q_proj":
                parts = [plain[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
                found[f"{at}.attn.in_proj_{match[3]}"] = torch.cat(parts)
    return {f"{prefix}.{name}": value.contiguous() for name, value in found.items()}


def one_file(folder: Path) -> dict[str, Any]:
    """The tensors of a tiny pipeline (diffusion_world.py), with those that such files have beside weights."""
    import torch

    file = "diffusion_pytorch_model.safetensors"
    found = {_unet(name): value for name, value in load_file(folder / "unet" / file).items()}
    for name, value in load_file(folder / "vae" / file).items():
        of_attention = "attentions" in name and value.ndim == 2
        found[_vae(name, 3)] = value[:, :, None, None] if of_attention else value
    texts = load_file(folder / "text_encoder" / "model.safetensors")
    two = (folder / "text_encoder_2").is_dir()
    first = "conditioner.embedders.0.transformer." if two else "cond_stage_model.transformer."
    found |= {f"{first}text_model.{name.removeprefix('text_model.')}": value for name, value in texts.items()}
    found[f"{first}text_model.embeddings.position_ids"] = torch.arange(16)[None]
    if two:
        second = load_file(folder / "text_encoder_2" / "model.safetensors")
        found |= _open_clip(second, "conditioner.embedders.1.model")
        found["conditioner.embedders.1.model.logit_scale"] = torch.tensor(4.6)
    else:
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
        found |= {"betas": betas.float(), "alphas_cumprod": torch.cumprod(1 - betas, 0).float()}
        found |= {"sqrt_recipm1_alphas_cumprod": betas, "model_ema.decay": torch.tensor(0.9999)}
    return found


def save_one_file(kind: str, root: Path) -> str:
    """A pipeline as a folder of its kind's name and as one file. Returns the URI of the file."""
    import diffusers
    import torch
    from diffusion_world import BETAS, build, text_encoder, tokenizer, vae, xl_unet

    if kind == "sdxl":  # with text encoders of two widths, by which diffusers tells them apart
        parts = {"text_encoder": text_encoder, "text_encoder_2": lambda: text_encoder(40, projected=True), "vae": vae}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            made = {name: make() for name, make in {**parts, "unet": lambda: xl_unet(4, 72, 6)}.items()}
        made |= {"tokenizer": tokenizer(), "tokenizer_2": tokenizer()}
        scheduler = diffusers.EulerDiscreteScheduler(**BETAS, timestep_spacing="leading")
        pipeline: Any = diffusers.StableDiffusionXLPipeline(**made, scheduler=scheduler)
    else:
        pipeline = build(kind)
    pipeline.save_pretrained(root / kind)
    save_file({name: value.contiguous() for name, value in one_file(root / kind).items()}, root / f"{kind}.safetensors")
    return f"diffusion:{kind}.safetensors?config={kind}&samples=2"
