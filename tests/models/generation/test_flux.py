"""A FLUX paints as diffusers' own pipeline does, and what no seed decides, is cut off or rounded is refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_world import difference, generators
from flux_world import SIDE, save_flux
from PIL import Image
from test_generated_pictures import PROMPTS, Prompts
from test_plain_pipelines import painter

from fairgate.ground.errors import ModelError
from fairgate.models import open_scorer, require_capability

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
SEEDS = [5, 6, 7]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    home = tmp_path_factory.mktemp("flux")
    return {guided: save_flux(home / str(guided), guided) for guided in (True, False)}


@pytest.fixture
def flux(folders: dict[bool, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(folders[True], tmp_path / "flux"))


def judged(folder: Path, options: str = f"?size={SIDE}") -> Any:
    return open_scorer(f"diffusion:{folder}{options}", Prompts(), device="cpu", cache=None)


@pytest.mark.parametrize("guided", [True, False])
def test_pictures_are_the_stock_pipelines_of_the_same_seeds(guided: bool, folders: dict[bool, Path]) -> None:
    """One was distilled with guidance, and shifts its schedule by the picture's size; the other is as schnell."""
    import diffusers

    ours = [Image.fromarray(made) for made in painter(folders[guided]).paint(PROMPTS, SEEDS, 3, 3.5)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock = diffusers.FluxPipeline.from_pretrained(folders[guided])
    stock.set_progress_bar_config(disable=True)
    settings = {"height": SIDE, "width": SIDE, "num_inference_steps": 3, "guidance_scale": 3.5}
    theirs = stock(prompt=PROMPTS, generator=generators(*SEEDS), **settings)
    assert difference(ours, theirs.images) <= 1
    assert difference(ours[:1], ours[1:2]) > 10, "another prompt and noise are another picture"


def test_pictures_that_do_not_fit_into_memory_together_are_painted_one_by_one(folders: dict[bool, Path]) -> None:
    model, batches = painter(folders[True]), list[int]()
    together, paint = model.paint(PROMPTS, SEEDS, 1, 3.5), model._paint

    def too_much(steps: int, guidance: float, prompts: Any, seeds: Any) -> list[Any]:
        batches.append(len(prompts))
        if len(prompts) > 1:
            raise torch.OutOfMemoryError
        return paint(steps, guidance, prompts, seeds)

    model._paint = too_much  # type: ignore[method-assign]
    alone = model.paint(PROMPTS, SEEDS, 1, 3.5)
    assert batches == [3, 1, 1, 1]
    assert difference(*([Image.fromarray(each) for each in made] for made in (together, alone))) <= 1


def test_it_paints_and_does_nothing_else(folders: dict[bool, Path]) -> None:
    model = judged(folders[True])
    require_capability(model, "generate", "the probe")
    assert model.capabilities == {"generate"}
    assert model.fingerprint != judged(folders[True], options="?size=40").fingerprint


@pytest.mark.parametrize("size", ["0", "4096", "large"])
def test_a_size_that_is_none_or_too_large_is_refused(size: str, folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError, match="not a whole number from 8 to"):
        judged(folders[True], options=f"?size={size}")


def test_a_size_that_diffusers_would_round_is_refused(folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError, match="of 20 pixels a side cannot be made"):
        painter(folders[True], side=20).paint(PROMPTS[:1], SEEDS[:1], 1, 3.5)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "changes", "problem"),
    [
        ("model_index.json", {"transformer": ["mine", "Net"]}, "code of the model's own"),
        ("model_index.json", {"transformer": [None, None]}, "the model cannot paint"),
        ("model_index.json", {"image_encoder": ["transformers", "CLIPVisionModel"]}, "part's folder is missing"),
        ("model_index.json", {"_class_name": "FluxFillPipeline"}, "no text-to-image pipeline"),
        ("model_index.json", {"custom_pipelines": "x"}, "code of its own"),
        ("transformer/config.json", {"auto_map": {"AutoModel": "x.Y"}}, "code of its own"),
        ("transformer/config.json", {"num_layers": 10_000}, "at most 1,000"),
        ("transformer/config.json", {"num_single_layers": 10_000}, "at most 1,000"),
        ("transformer/config.json", {"num_layers": 20}, "tensors are missing"),
        ("text_encoder_2/config.json", {"num_layers": 10_000}, "at most 1,000"),
        ("text_encoder_2/config.json", {"quantization_config": {"x": 1}}, "quantized"),
        ("scheduler/scheduler_config.json", {"stochastic_sampling": True}, "noise that no seed decides"),
    ],
)
def test_what_a_stranger_wrote_is_refused(file: str, changes: dict[str, Any], problem: str, flux: Path) -> None:
    edit(flux / file, **changes)
    with pytest.raises(ModelError, match=problem) as caught:
        painter(flux).paint(PROMPTS, SEEDS, 1, 3.5)
    assert caught.value.remedy


@pytest.mark.parametrize(("name", "value"), [("shift_factor", None), ("scaling_factor", 0)])
def test_a_vae_that_cannot_be_used_paints_nothing(name: str, value: Any, flux: Path) -> None:
    edit(flux / "vae/config.json", **{name: value})
    with pytest.raises(ModelError, match=r"not finite|cannot paint"):
        painter(flux).paint(PROMPTS, SEEDS, 1, 3.5)


def test_pickled_weights_are_refused(flux: Path) -> None:
    weights = flux / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelError, match="only pickled weights"):
        judged(flux)


def test_weights_in_one_variant_alone_are_taken(flux: Path) -> None:
    expected = painter(flux).paint(PROMPTS[:1], SEEDS[:1], 1, 3.5)
    weights = flux / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bf16.safetensors"))
    assert np.array_equal(painter(flux).paint(PROMPTS[:1], SEEDS[:1], 1, 3.5), expected)


def test_a_prompt_that_is_too_long_is_refused_and_not_cut(folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError, match=r"has 522 tokens, and the model reads \d+"):
        painter(folders[True]).paint([*PROMPTS[:2], "doctor " * 520], SEEDS, 1, 3.5)


def test_pictures_that_are_not_numbers_are_an_error_that_names_the_model(flux: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = flux / "transformer" / "diffusion_pytorch_model.safetensors"
    state = load_file(path)
    save_file({name: value * 1e30 for name, value in state.items()}, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="not finite"):
        painter(flux).paint(PROMPTS, SEEDS, 3, 3.5)
