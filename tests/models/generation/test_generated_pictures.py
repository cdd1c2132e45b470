"""A Stable Diffusion as painter of prompts: the pictures of diffusers' own pipeline, paired by row and seed, cached."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from diffusion_world import difference, generators
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models import EmbeddingCache, Generating, ImageSource, Request, generation_seed, require_capability
from fairgate.models.generation.diffusion_classifier.family import DiffusionClassifier, DiffusionFamily

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # the stock pipeline's
]

HOW = Generating(steps=5)
PROMPTS = ["a photo of doctor", "a photo of nurse", "a photo of doctor"]


class Prompts:
    """A release without pictures: names of rows, and nothing else."""

    folder = Path("prompts")

    def __init__(self, rows: int = 3) -> None:
        names = np.array([f"row-{row}" for row in range(rows)], dtype=object)
        self.index = SimpleNamespace(set_id=names, member=np.array(["only"] * rows), path=np.array([""] * rows))

    @property
    def fingerprint(self) -> str:
        return f"{len(self)} prompts"

    def __len__(self) -> int:
        return len(self.index.set_id)

    def image_batches(self, _batch_size: int) -> Any:
        raise AssertionError("a release of prompts has no pictures")


def painter(folder: Path, options: str = "", **more: Any) -> DiffusionClassifier:
    request = Request(
        f"diffusion:{folder}{options}", f"{folder}{options}", more.pop("source", Prompts()), device="cpu", **more
    )
    return DiffusionFamily().open(request)


def made(pictures: ImageSource, batch: int = 64) -> list[Image.Image]:
    found = [
        (int(row), Image.open(io.BytesIO(data)))
        for rows, blobs in pictures.image_batches(batch)
        for row, data in zip(rows, blobs, strict=True)
    ]
    assert [row for row, _ in found] == list(range(len(pictures)))
    return [one for _, one in found]


@pytest.mark.parametrize(
    ("kind", "pipeline", "guidance"),
    [
        ("sd1", "StableDiffusionPipeline", 7.5),
        ("sd1", "StableDiffusionPipeline", 1.0),
        ("sd2", "StableDiffusionPipeline", 7.5),
        ("sdxl", "StableDiffusionXLPipeline", 5.0),
    ],
)
def test_pictures_are_the_stock_pipelines_of_the_same_seeds(
    kind: str, pipeline: str, guidance: float, pipelines: dict[str, Path], stock: Any
) -> None:
    ours = made(painter(pipelines[kind]).generate(PROMPTS, Generating(3, 5, guidance)))
    theirs = stock(kind, pipeline)(
        prompt=PROMPTS,
        num_inference_steps=5,
        guidance_scale=guidance,
        generator=generators(*(generation_seed(f"row-{row}", "only", 3) for row in range(3))),
    )
    assert difference(ours, theirs.images) <= 1


def test_noise_is_of_a_row_and_a_seed_and_of_nothing_else(pipelines: dict[str, Path]) -> None:
    seeds = {generation_seed(*one) for one in [("a", "x", 0), ("a", "y", 0), ("b", "x", 0), ("a", "x", 1)]}
    assert len(seeds) == 4
    one, other = (painter(pipelines[kind]).generate(PROMPTS, HOW) for kind in ("sd1", "sd2"))
    assert one.seeds == other.seeds  # type: ignore[attr-defined]
    assert one.fingerprint != other.fingerprint


def test_pictures_do_not_depend_on_the_batch_and_rows_of_one_prompt_differ(pipelines: dict[str, Path]) -> None:
    whole = made(painter(pipelines["sd1"]).generate(PROMPTS, HOW))
    single = made(painter(pipelines["sd1"]).generate(PROMPTS, HOW), batch=1)
    assert difference(whole, single) <= 1
    assert difference(whole[:1], whole[2:]) > 1
    assert {one.size for one in made(painter(pipelines["sd1"], "?size=40").generate(PROMPTS, HOW))} == {(40, 40)}


def test_what_was_made_is_not_made_again_also_for_a_larger_release(pipelines: dict[str, Path], tmp_path: Path) -> None:
    first = painter(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    batches = first.generate(PROMPTS, HOW).image_batches(2)
    next(batches)
    batches.close()  # as by Ctrl-C
    seen: list[tuple[int, int]] = []
    more = painter(
        pipelines["sd1"],
        cache=EmbeddingCache(tmp_path),
        source=Prompts(4),
        progress=lambda done, total: seen.append((done, total)),
    )
    made(more.generate([*PROMPTS, "a face"], HOW))
    assert more._engine().spent["unet"] == first._engine().spent["unet"]  # rows 2 and 3; rows 0 and 1 were there
    assert seen[-1] == (4, 4)
    third = painter(pipelines["sd1"], cache=EmbeddingCache(tmp_path))
    made(third.generate(PROMPTS, HOW))
    assert third._network is None


@pytest.mark.parametrize(
    "other",
    [
        (PROMPTS, Generating(1, 5)),
        (PROMPTS, Generating(steps=6)),
        (PROMPTS, Generating(0, 5, 3.0)),
        (PROMPTS[::-1], HOW),
        (["a face", *PROMPTS[1:]], HOW),
    ],
)
def test_another_seed_prompt_or_way_is_another_source(other: Any, pipelines: dict[str, Path]) -> None:
    model = painter(pipelines["sd1"])
    same = other == (PROMPTS[::-1], HOW)  # read backwards, these prompts are the same
    assert (model.generate(PROMPTS, HOW).fingerprint == model.generate(*other).fingerprint) == same


@pytest.mark.parametrize(
    ("prompts", "problem"), [(PROMPTS[:2], "2 prompts came for 3 rows"), (["", *PROMPTS[1:]], "row 0")]
)
def test_a_row_without_a_prompt_is_refused(prompts: list[str], problem: str, pipelines: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match=problem):
        painter(pipelines["sd1"]).generate(prompts, HOW)


def test_latents_that_are_not_numbers_are_an_error_that_names_the_model(
    pipelines: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from fairgate.models.generation.diffusion import paint as module

    monkeypatch.setattr(module, "made_latents", lambda *_, **__: torch.full((1, 4, 8, 8), torch.nan))
    with pytest.raises(ModelError, match="NaN or infinite"):
        made(painter(pipelines["sd1"]).generate(PROMPTS, HOW))


def test_a_diffusion_model_is_a_painter_by_its_capability(pipelines: dict[str, Path]) -> None:
    require_capability(painter(pipelines["sd1"]), "generate", "probe 'pictures'")
