"""A FLUX paints as diffusers' own pipeline does, paired by row and seed, and nothing of a stranger's folder is run."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from diffusion_world import difference, generators
from flux_world import SIDE, save_flux
from test_generated_pictures import PROMPTS, Prompts, made

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, Generating, generation_seed, open_scorer, require_capability

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]

HOW = Generating(3, 3, 3.5)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    home = tmp_path_factory.mktemp("flux")
    return {guided: save_flux(home / str(guided), guided) for guided in (True, False)}


@pytest.fixture
def flux(folders: dict[bool, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(folders[True], tmp_path / "flux"))


def painter(folder: Path, cache: EmbeddingCache | None = None, options: str = f"?size={SIDE}") -> Any:
    return open_scorer(f"flux:{folder}{options}", Prompts(), device="cpu", cache=cache)


@pytest.mark.parametrize("guided", [True, False])
def test_pictures_are_the_stock_pipelines_of_the_same_seeds(guided: bool, folders: dict[bool, Path]) -> None:
    """One was distilled with guidance, and shifts its schedule by the picture's size; the other is as schnell."""
    import diffusers

    ours = made(painter(folders[guided]).generate(PROMPTS, HOW))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock = diffusers.FluxPipeline.from_pretrained(folders[guided])
    stock.set_progress_bar_config(disable=True)
    theirs = stock(
        prompt=PROMPTS,
        height=SIDE,
        width=SIDE,
        num_inference_steps=3,
        guidance_scale=3.5,
        generator=generators(*(generation_seed(f"row-{row}", "only", 3) for row in range(3))),
    )
    assert difference(ours, theirs.images) <= 1
    assert difference(ours[:1], ours[1:2]) > 10, "another prompt and noise are another picture"


def test_a_picture_is_made_once_whatever_the_batch(folders: dict[bool, Path], tmp_path: Path) -> None:
    whole = made(painter(folders[True]).generate(PROMPTS, HOW))
    one = painter(folders[True], EmbeddingCache(tmp_path))
    assert difference(whole, made(one.generate(PROMPTS, HOW), batch=1)) <= 1
    again = painter(folders[True], EmbeddingCache(tmp_path))
    assert difference(whole, made(again.generate(PROMPTS, HOW))) <= 1
    assert again._network is None, "nothing is loaded for what is known"


def test_it_paints_and_does_nothing_else(folders: dict[bool, Path]) -> None:
    model = painter(folders[True])
    require_capability(model, "generate", "the probe")
    assert model.capabilities == {"generate"}
    assert model.fingerprint != painter(folders[True], options="?size=40").fingerprint


@pytest.mark.parametrize("size", ["20", "0", "4096", "large"])
def test_a_size_that_cannot_be_made_is_refused(size: str, folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError, match="pixels a side cannot be made"):
        painter(folders[True], options=f"?size={size}")


def edit(path: Path, **changes: Any) -> None:
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in config.items() if value != "gone"}), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "changes", "problem"),
    [
        ("model_index.json", {"transformer": ["mine", "Net"]}, "code of the model's own"),
        ("model_index.json", {"text_encoder_2": ["transformers", "AutoModel"]}, "which the"),
        ("model_index.json", {"scheduler": ["diffusers", "DDIMScheduler"]}, "is a DDIMScheduler"),
        ("model_index.json", {"transformer": [None, None]}, "lacks transformer"),
        ("model_index.json", {"image_encoder": ["transformers", "CLIPVisionModel"]}, "part that is not run"),
        ("model_index.json", {"_class_name": "FluxFillPipeline"}, "is a FluxFillPipeline"),
        ("model_index.json", {"custom_pipelines": "x"}, "code of its own"),
        ("transformer/config.json", {"auto_map": {"AutoModel": "x.Y"}}, "code of its own"),
        ("transformer/config.json", {"num_layers": 10_000}, "at most 1,000"),
        ("transformer/config.json", {"num_single_layers": 10_000}, "at most 1,000"),
        ("transformer/config.json", {"num_layers": 20}, "parameters"),
        ("text_encoder_2/config.json", {"num_layers": 10_000}, "at most 1,000"),
        ("text_encoder_2/config.json", {"quantization_config": {"x": 1}}, "quantized"),
        ("tokenizer_2/tokenizer_config.json", {"vocab_file": "/etc/hostname"}, "could be read from outside"),
        ("vae/config.json", {"shift_factor": None}, "no number"),
        ("vae/config.json", {"scaling_factor": 0}, "no positive number"),
    ],
)
def test_what_a_stranger_wrote_is_refused(file: str, changes: dict[str, Any], problem: str, flux: Path) -> None:
    edit(flux / file, **changes)
    with pytest.raises(ModelError, match=problem) as caught:
        made(painter(flux).generate(PROMPTS, HOW))
    assert caught.value.remedy


def test_pickled_weights_are_refused(flux: Path) -> None:
    weights = flux / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelError, match="only pickled weights"):
        painter(flux)


def test_a_prompt_that_is_too_long_is_refused_and_not_cut(folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError, match="has 522 tokens, and the model reads 512"):
        made(painter(folders[True]).generate([PROMPTS[0], PROMPTS[1], "doctor " * 520], HOW))


def test_latents_that_are_not_numbers_are_an_error_that_names_the_model(flux: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = flux / "transformer" / "diffusion_pytorch_model.safetensors"
    state = load_file(path)
    save_file({name: value * 1e30 for name, value in state.items()}, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="NaN or infinite"):
        made(painter(flux).generate(PROMPTS, HOW))


def test_a_folder_of_another_pipeline_is_told_its_uri(pipelines: dict[str, Path], folders: dict[bool, Path]) -> None:
    with pytest.raises(ModelError) as caught:
        painter(pipelines["sd1"])
    assert "name it diffusion:FOLDER" in str(caught.value.remedy)
    with pytest.raises(ModelError) as caught:
        open_scorer(f"diffusion:{folders[True]}", Prompts(), device="cpu")
    assert "name it flux:FOLDER" in str(caught.value.remedy)


def test_a_scheduler_whose_noise_no_seed_decides_is_refused(flux: Path) -> None:
    edit(flux / "scheduler/scheduler_config.json", stochastic_sampling=True)
    with pytest.raises(ModelError, match="noise that no seed decides"):
        made(painter(flux).generate(PROMPTS, HOW))
