"""Where the parts of a model lie changes no picture; tiles of the VAE do, and are part of the model's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_world import difference, hole, picture, repaint

from fairgate.ground.errors import ModelError
from fairgate.models.generation import (
    Attempt,
    Sampling,
    SetPainting,
    current_offload,
    model_fingerprint,
    offloading,
    open_model,
)
from fairgate.models.generation.diffusion.components import Placement

pytestmark = pytest.mark.xdist_group("diffusion")  # with others that read the same tiny pipelines

PROMPTS, SEEDS = ["a photo of doctor", "a photo of nurse"], [1, 2]
HOW = Sampling(steps=3, guidance=5.0)


@pytest.mark.parametrize("offload", [pytest.param("model", marks=pytest.mark.nightly), "sequential"])
def test_a_base_and_its_refiner_paint_the_same_wherever_their_parts_lie(
    offload: Any, pipelines: dict[str, Path]
) -> None:
    uri = f"hf:{pipelines['sdxl']}?refiner={pipelines['refiner']}"
    how = Sampling(steps=2, guidance=5.0, refine_from=0.5)
    wanted = open_model("painter", uri)
    with offloading(offload):
        spared = open_model("painter", uri)
    assert spared.fingerprint == wanted.fingerprint
    pictures = wanted.paint(PROMPTS, SEEDS, how)
    assert difference(spared.paint(PROMPTS, SEEDS, how), pictures) <= 1
    again = spared.paint(PROMPTS, SEEDS, how)  # the texts are known by now, and the VAE was the last on the device
    assert difference(again, pictures) <= 1


def test_an_inpainter_and_an_editor_make_the_same_wherever_their_parts_lie(pipelines: dict[str, Path]) -> None:
    def opened(role: Any, kind: str, how: Any) -> Any:
        with offloading(how):
            return open_model(role, f"hf:{pipelines[kind]}")

    ways: list[Any] = ["none", "model"]
    filled = [repaint(opened("inpainter", "sd_inpaint", how), picture(), hole(), PROMPTS, 1, HOW) for how in ways]
    assert difference(*filled) <= 1
    ways = ["none", "sequential"]
    edits = [opened("editor", "pix2pix", how).edit(picture(), PROMPTS, SEEDS, [HOW, HOW]) for how in ways]
    assert difference(*edits) <= 1


@pytest.mark.parametrize("mode", ["self", pytest.param("cross", marks=pytest.mark.nightly)])
def test_a_set_that_shares_attention_is_the_same_wherever_its_layers_lie(mode: Any, pipelines: dict[str, Path]) -> None:
    made = []
    for how in ("none", "sequential"):
        with offloading(how):
            parts = open_model("painter", f"hf:{pipelines['sd1']}").model
        painting = SetPainting(parts, PROMPTS, HOW, mode=mode, phrases=["doctor", "nurse"])
        canvases = painting.start([Attempt(3, 7.5, 0.6)])
        painting.advance(canvases)
        made.append(painting.pictures(canvases[0]))
    assert difference(*made) <= 1


def test_parts_take_turns_on_the_device() -> None:
    def lies() -> list[str]:
        return [next(part.parameters()).device.type for part in parts]

    turns = Placement(torch.device("meta"), "model")  # a device that every machine has
    parts = [turns.place(torch.nn.Linear(2, 2)) for _ in range(3)]
    assert lies() == ["cpu"] * 3
    parts[1](torch.empty(1, 2, device="meta"))
    assert lies() == ["cpu", "meta", "cpu"]
    assert turns.there is parts[1]


def test_a_pipeline_whose_parts_take_turns_computes_on_the_device(pipelines: dict[str, Path]) -> None:
    with offloading("model"):
        model = open_model("painter", f"hf:{pipelines['sd1']}").model
    model.placement.device = torch.device("meta")  # a device that every machine has
    for part in (model.unet, model.vae, *model.text_encoders):
        model.placement.place(part)
    assert model.pipeline_for("")._execution_device.type == "meta"


def test_layers_are_nowhere_until_they_compute(pipelines: dict[str, Path]) -> None:
    with offloading("sequential"):
        assert current_offload() == "sequential"
        model = open_model("painter", f"hf:{pipelines['sd1']}").model
    assert current_offload() == "none"
    assert {one.device.type for one in model.unet.parameters()} == {"meta"}
    model.embed_prompts(["a photo of doctor"])
    assert {one.device.type for one in model.text_encoders[0].parameters()} == {"meta"}


def test_tiles_of_the_vae_change_larger_pictures_and_name_another_model(pipelines: dict[str, Path]) -> None:
    uri = f"hf:{pipelines['sd1']}"
    plain, tiled = open_model("painter", uri), open_model("painter", f"{uri}?vae_tile=16")
    assert plain.fingerprint != tiled.fingerprint
    assert model_fingerprint("painter", f"{uri}?vae_tile=16") != model_fingerprint("painter", uri)
    assert model_fingerprint("painter", f"{uri}?vae_tile=16") != model_fingerprint("painter", f"{uri}?vae_tile=32")
    assert difference(tiled.paint(PROMPTS, SEEDS, HOW), plain.paint(PROMPTS, SEEDS, HOW)) > 1
    whole = open_model("painter", f"{uri}?vae_tile=32")  # as large as the pictures
    assert difference(whole.paint(PROMPTS, SEEDS, HOW), plain.paint(PROMPTS, SEEDS, HOW)) == 0


@pytest.mark.parametrize("tile", ["yes", "-16", "8", "18", "99999"])
def test_a_tile_that_is_none_is_refused(tile: str, pipelines: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="vae_tile is"):
        open_model("painter", f"hf:{pipelines['sd1']}?vae_tile={tile}")
