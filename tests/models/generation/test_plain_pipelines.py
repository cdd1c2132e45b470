"""Pipelines that fairgate does not run itself: diffusers calls them, in a process that reaches nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flux_world import build, tokenizer
from model_world import Pictures
from test_generated_pictures import PROMPTS, Prompts, made

from fairgate.ground.errors import ModelError
from fairgate.models import Generating, generation_seed, open_scorer
from fairgate.models.checkpoints import Device
from fairgate.models.generation.diffusion.files import PipelineAddress, find_pipeline
from fairgate.models.generation.plain_painting import PlainPainter, _needs_picture, _parameters

CPU = Device("cpu", "fp32")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable Diffusion 3 without its T5, tiny, with random weights."""
    import diffusers as d
    import transformers as t

    flux = build()
    settings = {**flux.text_encoder.config.to_dict(), "projection_dim": 16}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        encoders = [t.CLIPTextModelWithProjection(t.CLIPTextConfig(**settings)) for _ in range(2)]
        transformer = d.SD3Transformer2DModel(
            **{"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_layers": 1},
            **{"attention_head_dim": 8, "num_attention_heads": 2, "caption_projection_dim": 16},
            **{"joint_attention_dim": 64, "pooled_projection_dim": 32},
        )
    pipeline = d.StableDiffusion3Pipeline(
        **{"transformer": transformer, "scheduler": d.FlowMatchEulerDiscreteScheduler(), "vae": flux.vae},
        **{"text_encoder": encoders[0], "text_encoder_2": encoders[1], "text_encoder_3": None},
        **{"tokenizer": tokenizer(), "tokenizer_2": tokenizer(), "tokenizer_3": None},
    )
    folder = tmp_path_factory.mktemp("plain") / "sd3"
    pipeline.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "sd3"))


def painter(folder: Path, side: int = 32) -> PlainPainter:
    found = find_pipeline(PipelineAddress(str(folder)), Path(), plain=True)
    return PlainPainter({"path": str(folder), "found": found, "side": side}, found.files, CPU)


def opened(folder: Path, pictures: Pictures, options: str = "") -> Any:
    return open_scorer(f"diffusion:{folder}{options}", pictures, device="cpu", cache=None)


def test_a_pipeline_paints_what_its_own_call_paints(saved: Path) -> None:
    import diffusers as d

    (made,) = painter(saved).paint(["a photo of a doctor"], [5], 3, 2.0)
    pipeline = d.StableDiffusion3Pipeline.from_pretrained(saved, text_encoder_3=None, tokenizer_3=None)
    called = pipeline(
        prompt="a photo of a doctor",
        num_inference_steps=3,
        guidance_scale=2.0,
        height=32,
        width=32,
        generator=torch.Generator().manual_seed(5),
        output_type="np",
    ).images[0]
    np.testing.assert_array_equal(made, (called * 255).round().astype(np.uint8))
    assert made.std() > 10, "it is a picture"


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("Flux2Pipeline", False),
        ("Flux2KleinPipeline", False),
        ("FluxKontextPipeline", False),
        ("PixArtSigmaPipeline", False),
        ("StableDiffusion3Img2ImgPipeline", True),
        ("StableDiffusionInpaintPipeline", True),
        ("StableDiffusionControlNetPipeline", True),
        ("JoyImageEditPlusPipeline", True),
    ],
)
def test_a_pipeline_that_also_edits_paints_from_a_text_alone(name: str, needs: bool) -> None:
    import diffusers

    pipeline = getattr(diffusers, name)
    assert _needs_picture(pipeline, _parameters(pipeline)) is needs


def test_what_a_pipeline_draws_by_itself_is_decided_by_the_seed_of_each_picture(saved: Path) -> None:
    here, prompts, seeds = painter(saved), ["a photo of a doctor"] * 3, [5, 6, 7]
    here.pipeline.scheduler.register_to_config(stochastic_sampling=True)  # noise of torch's own generator
    together = here.paint(prompts, seeds, 3, 2.0)
    torch.rand(1)
    alone = [here.paint(prompts[:1], [seed], 3, 2.0)[0] for seed in (7, 6, 5)][::-1]
    np.testing.assert_array_equal(together, alone)
    assert np.abs(np.subtract(*together[:2], dtype=float)).max() > 10


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (["mine", "Transformer"], "'transformer' is code of|transformer is code of the model's own"),
        (["diffusers", "../evil"], "is code of the model's own"),
        (["diffusers.utils", "X"], "is code of the model's own"),
    ],
    ids=["another library", "a path", "a module"],
)
def test_parts_that_are_code_of_the_models_own_are_refused(
    entry: list[str], problem: str, folder: Path, pictures: Pictures
) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, "transformer": entry}))
    with pytest.raises(ModelError, match=problem):
        opened(folder, pictures)


@pytest.mark.parametrize("part", ["../elsewhere", "/etc"])
def test_a_part_that_lies_outside_of_the_folder_is_refused(part: str, folder: Path, pictures: Pictures) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, part: ["diffusers", "AutoencoderKL"]}))
    with pytest.raises(ModelError, match="code of the model's own"):
        opened(folder, pictures)


def test_pickled_weights_missing_tensors_and_foreign_options_are_refused(folder: Path, pictures: Pictures) -> None:
    from safetensors.torch import load_file, save_file

    with pytest.raises(ModelError, match=r"(?s)unknown or empty: 'samples'.*options: size, lora"):
        opened(folder, pictures, "?samples=10")
    weights = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(weights)
    save_file(dict(list(tensors.items())[1:]), weights, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="1 tensors are missing"):
        painter(folder)
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelError, match="pickled"):
        opened(folder, pictures)


def test_a_class_that_diffusers_does_not_have_or_that_needs_a_picture_is_refused(folder: Path) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    for name in ("HeardOfPipeline", "StableDiffusion3Img2ImgPipeline", "ConfigMixin"):
        (folder / "model_index.json").write_text(json.dumps({**index, "_class_name": name}))
        with pytest.raises(ModelError, match="has no text-to-image pipeline"):
            painter(folder)


def test_another_tokenizer_is_another_reading(folder: Path, pictures: Pictures) -> None:
    before = opened(folder, pictures)
    words = folder / "tokenizer_2" / "tokenizer.json"
    words.write_text(words.read_text().replace('"doctor"', '"dcotor"'))
    after = opened(folder, pictures)
    assert before.tokenizer != after.tokenizer
    assert before.fingerprint != after.fingerprint
    config = folder / "tokenizer_2" / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": "{{ messages }}"}))
    assert opened(folder, pictures).tokenizer != after.tokenizer, "some pipelines write prompts into a chat"
    assert before.note.startswith("painted by diffusers' own StableDiffusion3Pipeline")


@pytest.mark.nightly
def test_rows_are_painted_in_the_isolated_process_by_their_seeds(saved: Path) -> None:
    model: Any = open_scorer(f"diffusion:{saved}?size=32", Prompts(), device="cpu", cache=None)
    ours = made(model.generate(PROMPTS, Generating(3, 2, 2.0)))
    here = painter(saved)
    for row, (prompt, picture) in enumerate(zip(PROMPTS, ours, strict=True)):
        (wanted,) = here.paint([prompt], [generation_seed(f"row-{row}", "only", 3)], 2, 2.0)
        np.testing.assert_array_equal(np.asarray(picture), wanted)
