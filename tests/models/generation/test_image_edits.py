"""A Stable Diffusion as editor: the pictures of diffusers' own pipeline, paired by image and seed, and cached."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_world import difference, generators
from model_world import Pictures, encoded, picture
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models import Editing, EmbeddingCache, ImageSource, Request, require_capability
from fairgate.models.generation.diffusion_classifier.family import DiffusionClassifier, DiffusionFamily
from fairgate.models.made_pictures import editing_seed

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings(
        "ignore:__array__ implementation:DeprecationWarning"
    ),  # the stock pipeline's, of numpy 2
]

HOW = Editing(strength=0.6, steps=6)
PROMPT = "a photo of doctor"


def source(images: int = 4) -> Pictures:
    return Pictures([encoded(picture(seed, (40, 32))) for seed in range(images)])


def editor(folder: Path, **more: Any) -> DiffusionClassifier:
    request = Request(f"diffusion:{folder}", str(folder), more.pop("source", source()), device="cpu", **more)
    return DiffusionFamily().open(request)


def made(edits: ImageSource, batch: int = 64) -> list[Image.Image]:
    found = [
        (int(row), Image.open(io.BytesIO(data)))
        for rows, blobs in edits.image_batches(batch)
        for row, data in zip(rows, blobs, strict=True)
    ]
    assert [row for row, _ in found] == list(range(len(edits)))
    return [one for _, one in found]


@pytest.mark.parametrize("strength", [0.6, 1.0])
@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("sd1", "StableDiffusionImg2ImgPipeline"),
        ("sd2", "StableDiffusionImg2ImgPipeline"),
        ("sdxl", "StableDiffusionXLImg2ImgPipeline"),
    ],
)
def test_edits_are_the_stock_pipelines_of_the_same_seeds(
    kind: str, pipeline: str, strength: float, pipelines: dict[str, Path], stock: Any
) -> None:
    images = Pictures([encoded(picture(seed, (32, 32))) for seed in range(2)])  # of the size that it was trained at
    model = editor(pipelines[kind], source=images)
    ours = made(model.edit(PROMPT, Editing(strength, seed=3, steps=6, guidance=7.5)))
    seeds = [editing_seed(str(images.index.set_id[row]), str(images.index.member[row]), 3) for row in range(2)]
    theirs = stock(kind, pipeline)(
        prompt=[PROMPT] * 2,
        image=[picture(seed, (32, 32)) for seed in range(2)],
        strength=strength,
        num_inference_steps=6,
        guidance_scale=7.5,
        generator=generators(*seeds),
    )
    assert difference(ours, theirs.images) <= 1


def test_noise_is_of_an_image_and_a_seed_and_of_nothing_else() -> None:
    names = [("set", "one", 0), ("set", "two", 0), ("other", "one", 0), ("set", "one", 1)]
    assert editing_seed(*names[0]) == editing_seed(*names[0])
    assert len({editing_seed(*each) for each in names}) == 4


def test_edits_do_not_depend_on_the_batch_and_keep_the_size_of_their_picture(pipelines: dict[str, Path]) -> None:
    sizes = [(40, 32), (32, 40), (40, 32), (16, 16)]
    images = Pictures([encoded(picture(seed, size)) for seed, size in enumerate(sizes)])
    whole = made(editor(pipelines["sd1"], source=images).edit(PROMPT, HOW))
    single = made(editor(pipelines["sd1"], source=images).edit(PROMPT, HOW), batch=1)
    assert [one.size for one in whole] == sizes
    assert difference(whole, single) <= 1


def test_another_seed_prompt_or_strength_is_another_edit_by_name_and_by_picture(pipelines: dict[str, Path]) -> None:
    model = editor(pipelines["sd1"], source=source(1))
    asked = [(PROMPT, HOW), ("a photo of nurse", HOW), (PROMPT, Editing(0.9, steps=6)), (PROMPT, Editing(0.6, 1, 6))]
    edits = [model.edit(*one) for one in asked]
    assert len({one.fingerprint for one in edits}) == 4
    assert len({made(one)[0].tobytes() for one in edits}) == 4


def test_what_was_made_before_an_interruption_is_not_made_again(pipelines: dict[str, Path], tmp_path: Path) -> None:
    first = editor(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    batches = first.edit(PROMPT, HOW).image_batches(2)
    next(batches)
    batches.close()  # as by Ctrl-C
    spent = first._engine().spent["unet"]
    again = editor(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    whole = made(again.edit(PROMPT, HOW))
    assert again._engine().spent["unet"] == spent  # the other half
    third = editor(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    assert difference(made(third.edit(PROMPT, HOW)), whole) == 0
    assert third._network is None


def test_of_a_release_that_shares_pictures_with_another_one_only_the_new_ones_are_edited(
    pipelines: dict[str, Path], tmp_path: Path
) -> None:
    old, cache = source(4), EmbeddingCache(tmp_path)
    first = editor(pipelines["sd1"], source=old, cache=cache)
    before = made(first.edit(PROMPT, HOW))
    new = Pictures([*old.blobs, encoded(picture(9, (40, 32)))])
    second = editor(pipelines["sd1"], source=new, cache=cache)
    edits = second.edit(PROMPT, HOW)
    after = made(edits)
    assert edits.fingerprint != first.edit(PROMPT, HOW).fingerprint
    assert difference(after[:4], before) == 0
    assert second._engine().spent["unet"] * 4 == first._engine().spent["unet"]
    moved = Pictures(old.blobs[::-1])  # each picture in another set or member: another seed, another edit
    third = editor(pipelines["sd1"], source=moved, cache=cache)
    made(third.edit(PROMPT, HOW))
    assert third._engine().spent["unet"] == first._engine().spent["unet"]


def test_edits_of_other_weights_are_not_taken_from_the_cache(pipelines: dict[str, Path], tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    one, other = (editor(pipelines[kind], cache=cache).edit(PROMPT, HOW) for kind in ("sd1", "sd2"))
    assert one.fingerprint != other.fingerprint
    assert difference(made(one), made(other)) > 1


@pytest.mark.parametrize("strength", [0.0, 1.5, float("nan")])
def test_a_strength_that_is_no_share_is_refused(strength: float, pipelines: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="no share of the steps"):
        editor(pipelines["sd1"]).edit(PROMPT, Editing(strength))


def test_a_strength_that_leaves_no_step_is_refused(pipelines: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="leaves no step"):
        made(editor(pipelines["sd2"]).edit(PROMPT, Editing(0.1, steps=6)))


def test_latents_that_are_not_numbers_are_an_error_that_names_the_picture(
    pipelines: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairgate.models.generation.diffusion_classifier import engine as module

    monkeypatch.setattr(module, "made_latents", lambda *_, **__: torch.full((1, 4, 8, 8), torch.nan))
    with pytest.raises(ModelError, match="NaN or infinite"):
        made(editor(pipelines["sd1"]).edit(PROMPT, HOW))


def test_a_diffusion_model_is_an_editor_by_its_capability(pipelines: dict[str, Path]) -> None:
    require_capability(editor(pipelines["sd1"]), "edit", "probe 'edits'")
    assert np.array_equal(editor(pipelines["sd1"]).edit(PROMPT, HOW).index.set_id, source().index.set_id)
