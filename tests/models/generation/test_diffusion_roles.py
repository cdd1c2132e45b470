"""What a picture depends on, what it costs, and what stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusion_world import FACTOR, SIDE, difference, hole, picture, repaint, restyle
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling

pytestmark = pytest.mark.xdist_group("diffusion")

PROMPTS = ["a photo of doctor", "a photo of nurse", "a photo of chef"]
HOW = Sampling(steps=3, guidance=5.0, strength=0.7)
PHOTOGRAPHS = Path(__file__).parents[3] / "../shared/real/fairface_photos"


@pytest.mark.parametrize("scheduler", [None, "euler_ancestral", "ddpm"])
def test_a_picture_depends_on_its_own_prompt_and_seed_and_not_on_its_batch(scheduler: str | None, tiny: Any) -> None:
    how = Sampling(steps=3, guidance=5.0, scheduler=scheduler)
    painter = tiny("painter", "sd1")
    together = painter.paint(PROMPTS, [1, 2, 3], how)
    alone = [painter.paint([prompt], [seed], how)[0] for prompt, seed in zip(PROMPTS, [1, 2, 3], strict=True)]
    assert difference(together, alone) <= 1
    assert difference(together, painter.paint(PROMPTS, [1, 2, 3], how)) == 0
    assert difference(together[:1], painter.paint(PROMPTS[:1], [9], how)) > 20
    assert difference(together[:1], painter.paint(PROMPTS[1:2], [1], how)) > 1


def test_a_seed_of_63_bits_is_taken(tiny: Any) -> None:
    first, second = tiny("painter", "sd1").paint(PROMPTS[:1] * 2, [2**63 - 2, 2**63 - 3], HOW)
    assert difference([first], [second]) > 20


def test_noise_and_embeddings_are_the_same_whoever_asks_with_them(tiny: Any) -> None:
    from fairgate.models.generation.diffusion.paint import generators_of

    model = tiny("painter", "sdxl").model
    both = model.noise(generators_of([5, 6]), (SIDE, SIDE))
    assert both.shape == (2, 4, SIDE // FACTOR, SIDE // FACTOR)
    assert torch.equal(both[1:], model.noise(generators_of([6]), (SIDE, SIDE)))
    told = model.embed_prompts(PROMPTS)
    assert torch.equal(told.tokens[2:], model.embed_prompts(PROMPTS[2:]).tokens)
    assert told.pooled is not None
    assert torch.equal(told.pooled[1:2], model.embed_prompts(PROMPTS[1:2]).pooled)
    asked: list[int] = []
    handle = model.text_encoders[0].register_forward_hook(lambda *_: asked.append(1))
    model.embed_prompts(PROMPTS)
    handle.remove()
    assert not asked  # kept since they were first embedded


@pytest.mark.parametrize(("guidance", "evaluations"), [(5.0, 2 * 3 * 3), (1.0, 3 * 3)])
def test_evaluations_are_counted_per_picture_twice_under_guidance(guidance: float, evaluations: int, tiny: Any) -> None:
    painter = tiny("painter", "sd2")
    before = painter.spent["unet"]
    painter.paint(PROMPTS, [1, 2, 3], Sampling(steps=3, guidance=guidance))
    assert painter.spent["unet"] - before == evaluations


def test_an_edit_is_three_evaluations_a_step(tiny: Any) -> None:
    editor = tiny("editor", "pix2pix")
    before = editor.spent["unet"]
    editor.edit(picture(), PROMPTS[:2], [1, 2], [Sampling(steps=4, guidance=7.5)] * 2)
    assert editor.spent["unet"] - before == 3 * 4 * 2


@pytest.mark.parametrize("kind", ["sd1", "sd_inpaint"])
def test_what_the_mask_does_not_show_stays_to_the_pixel(kind: str, tiny: Any) -> None:
    base, mask = picture(45, 37), hole(45, 37)  # no multiple of the VAE's factor
    for made in repaint(tiny("inpainter", kind), base, mask, PROMPTS, 7, HOW):
        assert made.size == base.size
        assert np.array_equal(np.asarray(made)[~mask], np.asarray(base)[~mask])
        assert (np.asarray(made)[mask] != np.asarray(base)[mask]).mean() > 0.9


def test_all_variants_of_a_set_start_from_one_noise_and_one_reading_of_the_picture(tiny: Any) -> None:
    inpainter = tiny("inpainter", "sd1")
    read: list[int] = []
    handle = inpainter.model.vae.encoder.register_forward_hook(lambda *_: read.append(1))
    how = Sampling(steps=3, guidance=5.0, strength=0.7, scheduler="euler_ancestral")
    made = repaint(inpainter, picture(), hole(), ["a photo", "a photo", "a hat"], 7, how)
    handle.remove()
    assert len(read) == 1
    assert difference(made[:1], made[1:2]) <= 1  # its later noise is shared, too
    assert difference(made[:1], made[2:]) > 1


def test_one_variant_of_each_picture_is_what_each_gets_alone(tiny: Any) -> None:
    pictures = [picture(), picture().transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    masks, seeds = [hole(), hole()[:, ::-1]], [7, 8]
    for kind in ("sd1", "sd_inpaint"):
        inpainter = tiny("inpainter", kind)
        together = inpainter.inpaint(pictures, masks, PROMPTS[:2], seeds, HOW)
        alone = [
            repaint(inpainter, one, mask, [prompt], seed, HOW)[0]
            for one, mask, prompt, seed in zip(pictures, masks, PROMPTS, seeds, strict=False)
        ]
        assert difference(together, alone) <= 1


@pytest.mark.parametrize("size", [(45, 37), (7, 61), (3, 3)])
def test_pictures_of_any_size_are_worked_on_and_come_back_at_their_own(size: tuple[int, int], tiny: Any) -> None:
    assert restyle(tiny("painter", "sd1").model, picture(*size), PROMPTS[:1], [1], HOW)[0].size == size
    assert tiny("editor", "pix2pix").edit(picture(*size), PROMPTS[:1], [1], [HOW])[0].size == size
    larger = Sampling(steps=2, guidance=1.0, strength=1.0, size=64)
    assert restyle(tiny("painter", "sd1").model, picture(*size), PROMPTS[:1], [1], larger)[0].size == size


def test_a_painter_paints_at_the_size_that_is_asked_for(tiny: Any) -> None:
    assert tiny("painter", "sd1").paint(PROMPTS[:1], [1], HOW)[0].size == (SIDE, SIDE)
    sized = Sampling(steps=2, guidance=1.0, size=48)
    assert tiny("painter", "sdxl").paint(PROMPTS[:1], [1], sized)[0].size == (48, 48)


@pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason="the photographs are not beside this checkout")
def test_real_photographs_are_restyled_inpainted_and_edited(tiny: Any) -> None:
    path = sorted(PHOTOGRAPHS.glob("*.jpg"))[0]
    with Image.open(path) as opened:
        photo = opened.convert("RGB").crop((0, 0, 221, 211))
    mask = np.zeros((211, 221), dtype=bool)
    mask[60:150, 50:170] = True
    restyled = restyle(tiny("painter", "sd1").model, photo, PROMPTS[:1], [1], HOW)
    (painted,) = repaint(tiny("inpainter", "sd_inpaint"), photo, mask, PROMPTS[:1], 1, HOW)
    edited = tiny("editor", "pix2pix").edit(photo, PROMPTS[:1], [1], [Sampling(steps=2, guidance=7.5)])
    assert [one.size for one in (*restyled, painted, *edited)] == [photo.size] * 3
    assert np.array_equal(np.asarray(painted)[~mask], np.asarray(photo)[~mask])
    assert all(np.asarray(one).std() > 5 for one in (*restyled, painted, *edited))


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda tiny: tiny("painter", "sd1").paint(PROMPTS, [1], HOW), "cannot paint .*list of generators of length 1"),
        (lambda tiny: tiny("painter", "sd1").paint([], [], HOW), "cannot paint"),
        (lambda tiny: tiny("painter", "sd1").paint(["a " * 40], [1], HOW), "has 42 tokens, and the model reads 16"),
        (lambda tiny: tiny("painter", "sd1").paint(["a"], [1], Sampling(0, 5.0)), "leaves no step to run of 0"),
        (lambda tiny: tiny("painter", "sd1").paint(["a"], [1], Sampling(2, 5.0, size=30)), "multiples of 4"),
        (lambda tiny: tiny("painter", "sd1").paint(["a"], [1], Sampling(2, 5.0, scheduler="eular")), "no scheduler"),
        (lambda tiny: tiny("painter", "sd1").paint(["a"], [1], Sampling(2, 5.0, refine_from=0.8)), "has no refiner"),
        (
            lambda tiny: tiny("painter", "sdxl?refiner=refiner").paint(["a"], [1], Sampling(2, 5.0, refine_from=1.0)),
            "a share between 0 and 1",
        ),
        (
            lambda tiny: restyle(tiny("painter", "sd2").model, picture(), ["a"], [1], Sampling(3, 5.0, strength=0.1)),
            "leaves no step to run",
        ),
        (
            lambda tiny: repaint(tiny("inpainter", "sd1"), picture(), hole(8, 8), ["a"], 1, HOW),
            "differ in size .8x8, 40x32",
        ),
        (
            lambda tiny: tiny("inpainter", "sd1").inpaint(
                [picture(), picture(8, 8)], [hole(), hole(8, 8)], ["a", "a"], [1, 2], HOW
            ),
            "differ in size",
        ),
        (
            lambda tiny: tiny("editor", "pix2pix").edit(
                picture(), ["a", "a"], [1, 2], [Sampling(2, 5.0), Sampling(3, 5.0)]
            ),
            "differ in steps",
        ),
        (
            lambda tiny: tiny("editor", "pix2pix").edit(picture(), ["a"], [1], [Sampling(2, 5.0, refine_from=0.8)]),
            "name a refiner",
        ),
    ],
)
def test_what_cannot_be_made_is_an_error_that_says_what_to_ask_instead(ask: Any, problem: str, tiny: Any) -> None:
    with pytest.raises(ModelError, match=problem) as caught:
        ask(tiny)
    assert caught.value.remedy
