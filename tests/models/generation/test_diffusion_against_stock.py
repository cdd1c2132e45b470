"""Every role makes the pictures that diffusers' own pipeline makes of the same files, seeds and settings."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import pytest
from diffusion_world import Stock, difference, generators, hole, picture, repaint, restyle
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling, open_model

pytestmark = [
    pytest.mark.xdist_group("diffusion"),
    pytest.mark.filterwarnings(
        "ignore:__array__ implementation:DeprecationWarning"
    ),  # the stock pipelines', of numpy 2
]

PROMPTS = ["a photo of doctor", "a photo of nurse"]


@pytest.mark.parametrize("negative", [None, "hat"])
@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("sd1", "StableDiffusionPipeline"),
        ("sd2", "StableDiffusionPipeline"),  # v-prediction
        ("sdxl", "StableDiffusionXLPipeline"),
    ],
)
def test_a_painter_paints_as_the_stock_pipeline(
    kind: str, pipeline: str, negative: str | None, tiny: Any, stock: Stock
) -> None:
    made = tiny("painter", kind).paint(PROMPTS, [1, 2], Sampling(steps=4, guidance=5.0, negative=negative))
    theirs = stock(kind, pipeline)(
        prompt=PROMPTS,
        num_inference_steps=4,
        guidance_scale=5.0,
        negative_prompt=[negative] * 2 if negative else None,
        generator=generators(1, 2),
    )
    assert difference(made, theirs.images) <= 1


@pytest.mark.parametrize("name", ["euler_ancestral", "ddim", "dpm++", "heun"])
def test_a_scheduler_by_name_is_the_stock_one_built_from_the_models_config(name: str, tiny: Any, stock: Stock) -> None:
    import warnings

    from fairgate.models.generation.diffusion.schedule import SCHEDULERS

    pipeline = stock("sd1", "StableDiffusionPipeline")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # diffusers' own, about numpy 2
        pipeline.scheduler = getattr(diffusers, SCHEDULERS[name]).from_config(pipeline.scheduler.config)
    theirs = pipeline(prompt=PROMPTS, num_inference_steps=4, guidance_scale=5.0, generator=generators(1, 2)).images
    made = tiny("painter", "sd1").paint(PROMPTS, [1, 2], Sampling(steps=4, guidance=5.0, scheduler=name))
    assert difference(made, theirs) <= 1


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("sd1", "StableDiffusionImg2ImgPipeline"),
        ("sd2", "StableDiffusionImg2ImgPipeline"),
        ("sdxl", "StableDiffusionXLImg2ImgPipeline"),
        ("refiner", "StableDiffusionXLImg2ImgPipeline"),  # told an aesthetic score, one text encoder
    ],
)
def test_a_picture_is_restyled_as_by_the_stock_pipeline(kind: str, pipeline: str, tiny: Any, stock: Stock) -> None:
    made = restyle(
        tiny("inpainter", kind).model, picture(), PROMPTS, [1, 2], Sampling(steps=6, guidance=7.5, strength=0.6)
    )
    theirs = stock(kind, pipeline)(
        prompt=PROMPTS,
        image=[picture()] * 2,
        strength=0.6,
        num_inference_steps=6,
        guidance_scale=7.5,
        generator=generators(1, 2),
    )
    assert difference(made, theirs.images) <= 1


@pytest.mark.parametrize("strength", [0.7, 1.0])
@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("sd1", "StableDiffusionInpaintPipeline"),  # a UNet of 4 channels
        ("sd_inpaint", "StableDiffusionInpaintPipeline"),  # of 9
        ("sdxl", "StableDiffusionXLInpaintPipeline"),
        ("sdxl_inpaint", "StableDiffusionXLInpaintPipeline"),
    ],
)
def test_an_inpainter_paints_in_the_mask_as_the_stock_pipeline(
    kind: str, pipeline: str, strength: float, tiny: Any, stock: Stock
) -> None:
    how = Sampling(steps=5, guidance=5.0, strength=strength)
    made = repaint(tiny("inpainter", kind), picture(), hole(), PROMPTS, 7, how)
    shown = Image.fromarray(hole())
    theirs = [  # one by one: given two prompts and one picture, diffusers draws the second's noise in another order
        stock(kind, pipeline)(
            prompt=prompt,
            image=picture(),
            mask_image=shown,
            width=40,
            height=32,
            strength=strength,
            num_inference_steps=5,
            guidance_scale=5.0,
            generator=generators(7),
        ).images[0]
        for prompt in PROMPTS
    ]
    assert difference(made, [Image.composite(one, picture(), shown) for one in theirs]) <= 1


def test_inpainting_with_a_refiner_is_the_stock_ensemble_of_experts(tiny: Any, stock: Stock) -> None:
    how = Sampling(steps=10, guidance=5.0, strength=0.7, refine_from=0.8)  # as paper 1 runs it, with 40 steps
    refined = tiny("inpainter", "sdxl?refiner=refiner")
    before = refined.spent["unet"]
    made = repaint(refined, picture(), hole(), PROMPTS, 7, how)
    assert refined.spent["unet"] - before == 2 * 2 * (5 + 2)  # 7 of 10 steps, the last two of them the refiner's
    base, refiner = (
        stock("sdxl", "StableDiffusionXLInpaintPipeline"),
        stock("refiner", "StableDiffusionXLImg2ImgPipeline"),
    )
    refiner.vae = base.vae
    asked = {"num_inference_steps": 10, "guidance_scale": 5.0}
    shown = Image.fromarray(hole())
    first = {"image": picture(), "mask_image": shown, "width": 40, "height": 32, "strength": 0.7, "denoising_end": 0.8}
    theirs = []
    for prompt in PROMPTS:
        latents = base(prompt=prompt, **first, **asked, output_type="latent", generator=generators(7)).images
        theirs += refiner(prompt=prompt, image=latents, denoising_start=0.8, **asked).images
    assert difference(made, [Image.composite(one, picture(), shown) for one in theirs]) <= 1


@pytest.mark.parametrize("scheduler", [None, "heun"])  # Heun's steps are two evaluations, which are not parted
def test_painting_with_a_refiner_is_the_stock_ensemble_of_experts(
    scheduler: str | None, tiny: Any, stock: Stock
) -> None:
    refined = tiny("painter", "sdxl?refiner=refiner")
    how = Sampling(steps=10, guidance=5.0, refine_from=0.8, scheduler=scheduler)
    made = refined.paint(PROMPTS, [1, 2], how)
    base, refiner = stock("sdxl", "StableDiffusionXLPipeline"), stock("refiner", "StableDiffusionXLImg2ImgPipeline")
    refiner.vae = base.vae
    if scheduler:
        for pipeline in (base, refiner):
            pipeline.scheduler = diffusers.HeunDiscreteScheduler.from_config(pipeline.scheduler.config)
    asked = {"prompt": PROMPTS, "num_inference_steps": 10, "guidance_scale": 5.0}
    latents = base(**asked, denoising_end=0.8, output_type="latent", generator=generators(1, 2)).images
    theirs = refiner(**asked, image=latents, denoising_start=0.8).images
    assert difference(made, theirs) <= 1


def test_a_refiner_is_guided_by_a_scale_of_its_own(tiny: Any, stock: Stock) -> None:
    refined = tiny("painter", "sdxl?refiner=refiner")
    how = Sampling(steps=10, guidance=5.0, refine_from=0.4, refine_guidance=99.0)
    base, refiner = stock("sdxl", "StableDiffusionXLPipeline"), stock("refiner", "StableDiffusionXLImg2ImgPipeline")
    refiner.vae = base.vae
    asked = {"prompt": PROMPTS, "num_inference_steps": 10}
    first = base(**asked, guidance_scale=5.0, denoising_end=0.4, output_type="latent", generator=generators(1, 2))
    theirs = refiner(**asked, guidance_scale=99.0, image=first.images, denoising_start=0.4).images
    assert difference(refined.paint(PROMPTS, [1, 2], how), theirs) <= 1
    assert difference(refined.paint(PROMPTS, [1, 2], replace(how, refine_guidance=None)), theirs) > 5


def test_inpainting_that_would_leave_out_the_moments_of_latents_is_refused(
    pipelines: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pipelines["sdxl"], tmp_path / "sdxl"))
    config = json.loads((folder / "vae/config.json").read_text())
    moments = {"latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [0.5, 1.5, 2.0, 1.0]}
    (folder / "vae/config.json").write_text(json.dumps({**config, **moments}))
    with pytest.raises(ModelError, match="without the VAE's latents_mean"):
        repaint(open_model("inpainter", f"hf:{folder}"), picture(), hole(), PROMPTS, 7, Sampling(4, 5.0))


@pytest.mark.parametrize("image_guidance", [1.5, 0.5])  # below 1, diffusers guides by nothing
def test_an_editor_edits_as_the_stock_pipeline(image_guidance: float, tiny: Any, stock: Stock) -> None:
    how = Sampling(steps=5, guidance=9.5, image_guidance=image_guidance)
    made = tiny("editor", "pix2pix").edit(picture(), PROMPTS, [3, 4], [how, how])
    theirs = stock("pix2pix", "StableDiffusionInstructPix2PixPipeline")(
        prompt=PROMPTS,
        image=[picture()] * 2,
        num_inference_steps=5,
        guidance_scale=9.5,
        image_guidance_scale=image_guidance,
        generator=generators(3, 4),
    )
    assert difference(made, theirs.images) <= 1


def test_edits_at_two_scales_in_one_batch_are_the_stock_pipelines_of_two_runs(tiny: Any, stock: Stock) -> None:
    hows = [Sampling(steps=5, guidance=9.5), Sampling(steps=5, guidance=15.0, image_guidance=1.2, negative="hat")]
    made = tiny("editor", "pix2pix").edit(picture(), PROMPTS, [3, 4], hows)
    pipeline = stock("pix2pix", "StableDiffusionInstructPix2PixPipeline")
    theirs = [
        pipeline(
            prompt=[prompt],
            image=picture(),
            num_inference_steps=how.steps,
            guidance_scale=how.guidance,
            image_guidance_scale=how.image_guidance,
            negative_prompt=[how.negative] if how.negative else None,
            generator=generators(seed),
        ).images[0]
        for prompt, seed, how in zip(PROMPTS, (3, 4), hows, strict=True)
    ]
    assert difference(made, theirs) <= 1
