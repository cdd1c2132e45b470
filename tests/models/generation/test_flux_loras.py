"""A LoRA of a FLUX paints as diffusers' own loader has it; one of which diffusers leaves something out is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_world import difference, generators
from flux_world import SIDE, save_flux
from PIL import Image
from safetensors.torch import load_file, save_file
from test_generated_pictures import PROMPTS, Prompts

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer
from fairgate.models.checkpoints import find_device
from fairgate.models.generation.diffusion.files import PipelineAddress, find_pipeline
from fairgate.models.generation.plain_painting import PlainPainter

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings("ignore"),  # of diffusers and peft
]
LORA = "pytorch_lora_weights.safetensors"
SCALE = 0.7


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_flux(tmp_path_factory.mktemp("flux") / "flux")


def stock(folder: Path, lora: Path | None = None) -> Any:
    import diffusers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = diffusers.FluxPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    if lora:
        pipeline.load_lora_weights(lora, adapter_name="lora")
        pipeline.set_adapters(["lora"], adapter_weights=[SCALE])
    return pipeline


def of_diffusers(flux: Path) -> dict[str, Any]:
    """As diffusers' training scripts save it: of the transformer and a text encoder."""
    from peft import LoraConfig, get_peft_model_state_dict

    pipeline, found = stock(flux), {}
    torch.manual_seed(4)
    for part, layers in {"transformer": ["to_q", "to_v", "ff.net.2"], "text_encoder": ["q_proj", "v_proj"]}.items():
        network = getattr(pipeline, part)
        network.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=layers, init_lora_weights=False))
        for name, tensor in get_peft_model_state_dict(network).items():
            found[f"{part}.{name}"] = torch.randn(tensor.shape) * 0.3
    return found


def of_kohya(_: Path) -> dict[str, Any]:
    """As kohya's scripts save it: queries, keys and values in one, with an alpha."""
    torch.manual_seed(4)
    found: dict[str, Any] = {}
    for name, outputs in {"img_attn_qkv": 96, "img_attn_proj": 32, "txt_attn_qkv": 96}.items():
        key = f"lora_unet_double_blocks_0_{name}"
        found[f"{key}.lora_down.weight"] = torch.randn(4, 32) * 0.5
        found[f"{key}.lora_up.weight"] = torch.randn(outputs, 4) * 0.5
        found[f"{key}.alpha"] = torch.tensor(8.0)
    return found


@pytest.fixture(scope="module", params=[of_diffusers, of_kohya], ids=["diffusers", "kohya"])
def lora(request: pytest.FixtureRequest, flux: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lora") / "lora.safetensors"
    save_file(request.param(flux), path)
    return path


def painter(folder: Path, lora: Path) -> PlainPainter:
    address = PipelineAddress(str(folder), lora=str(lora), lora_scale=SCALE)
    found = find_pipeline(address, Path(), plain=True)
    return PlainPainter({"path": str(folder), "found": found, "side": SIDE}, found.files, find_device("cpu"))


def test_pictures_are_those_of_diffusers_with_the_same_lora(flux: Path, lora: Path) -> None:
    ours = [Image.fromarray(made) for made in painter(flux, lora).paint(PROMPTS, [5, 6, 7], 2, 3.5)]
    settings = {"height": SIDE, "width": SIDE, "num_inference_steps": 2, "guidance_scale": 3.5, "prompt": PROMPTS}
    assert difference(ours, stock(flux, lora)(generator=generators(5, 6, 7), **settings).images) <= 1
    assert difference(ours, stock(flux)(generator=generators(5, 6, 7), **settings).images) > 3


def test_the_file_and_its_scale_are_in_the_fingerprint_and_the_note(flux: Path, lora: Path) -> None:
    def judged(options: str) -> Any:
        return open_scorer(f"diffusion:{flux}?size={SIDE}{options}", Prompts(), device="cpu", cache=None)

    models = [judged(options) for options in ("", f"&lora={lora}", f"&lora={lora}&lora_scale=0.5")]
    assert len({model.fingerprint for model in models}) == 3
    assert models[2].note.endswith("with a LoRA at 0.5")
    with pytest.raises(ModelError, match="no lora that it scales"):
        judged("&lora_scale=0.5")


CHANGES: dict[str, Any] = {
    "a tensor of no layer": lambda _: {"transformer.nowhere.lora_A.weight": torch.ones(4, 32)},
    "half of an update": lambda state: {next(name for name in state if "lora_B" in name or "lora_up" in name): None},
    "a magnitude": lambda state: {f"{next(iter(state)).partition('.lora')[0]}.dora_scale": torch.ones(32)},
    "another shape": lambda state: {next(iter(state)): torch.ones(4, 31)},
    "NaN": lambda state: {next(iter(state)): next(iter(state.values())) * torch.nan},
    "layers of another model": lambda state: {
        **dict.fromkeys(state),
        "transformer.transformer_blocks.7.attn.to_q.lora_A.weight": torch.ones(4, 32),
        "transformer.transformer_blocks.7.attn.to_q.lora_B.weight": torch.ones(32, 4),
    },
    "nothing": lambda state: {**dict.fromkeys(state), "a": torch.ones(2)},
}


@pytest.mark.parametrize("case", list(CHANGES))
def test_a_lora_of_which_something_would_be_left_out_or_made_up_is_refused(
    case: str, flux: Path, lora: Path, tmp_path: Path
) -> None:
    state = load_file(lora)
    changed = {name: tensor for name, tensor in {**state, **CHANGES[case](state)}.items() if tensor is not None}
    save_file(changed, tmp_path / "lora.safetensors")
    with pytest.raises(ModelError, match=r"the LoRA does not fit the pipeline|hold NaN") as refused:
        painter(flux, tmp_path / "lora.safetensors")
    assert refused.value.remedy
