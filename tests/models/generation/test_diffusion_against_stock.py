"""Every role makes the pictures that diffusers' own pipeline makes of the same files, seeds and settings."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from diffusion_world import FACTOR, Stock, difference, generators, hole, picture, restyle
from PIL import Image

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


@pytest.mark.parametrize(("kind", "setting"), [("sd1", "steps_offset"), ("sd2", "clip_sample")])  # of PNDM, of DDIM
def test_a_setting_that_the_config_does_not_mention_is_corrected_as_in_the_stock_pipeline(
    kind: str, setting: str, pipelines: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pipelines[kind], tmp_path / kind))
    path = folder / "scheduler/scheduler_config.json"
    config = json.loads(path.read_text())
    del config[setting]
    path.write_text(json.dumps(config))
    how = Sampling(steps=4, guidance=5.0)
    painter = open_model("painter", f"hf:{folder}")
    pipeline = Stock({kind: folder})(kind, "StableDiffusionPipeline")
    asked = {"prompt": PROMPTS, "num_inference_steps": 4, "guidance_scale": 5.0}
    theirs = pipeline(**asked, generator=generators(1, 2)).images
    assert difference(painter.paint(PROMPTS, [1, 2], how), theirs) <= 1
    pipeline.scheduler = diffusers.DDIMScheduler.from_config(pipeline.scheduler.config)  # which corrects nothing
    theirs = pipeline(**asked, generator=generators(1, 2)).images
    assert difference(painter.paint(PROMPTS, [1, 2], replace(how, scheduler="ddim")), theirs) <= 1


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
    made = tiny("inpainter", kind).inpaint(picture(), hole(), PROMPTS, 7, how)
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
    made = refined.inpaint(picture(), hole(), PROMPTS, 7, how)
    assert refined.spent["unet"] - before == 2 * 2 * (5 + 2)  # 7 of 10 steps, the last two of them the refiner's
    base, refiner = (stock(kind, "StableDiffusionXLInpaintPipeline") for kind in ("sdxl", "refiner"))
    refiner.vae = base.vae
    asked = {"mask_image": Image.fromarray(hole()), "width": 40, "height": 32, "num_inference_steps": 10}
    asked |= {"guidance_scale": 5.0}
    theirs = []
    for prompt in PROMPTS:
        noise = generators(7)
        first = {"image": picture(), "strength": 0.7, "denoising_end": 0.8, "output_type": "latent"}
        latents = base(prompt=prompt, **first, **asked, generator=noise).images
        again = generators(7)  # the same noise: the one that follows the draw of the picture's latents
        torch.randn((1, 4, 32 // FACTOR, 40 // FACTOR), generator=again[0])
        theirs += refiner(prompt=prompt, image=latents, denoising_start=0.8, **asked, generator=again).images
    assert difference(made, [Image.composite(one, picture(), Image.fromarray(hole())) for one in theirs]) <= 1


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


def test_a_vae_with_moments_of_its_latents_reads_and_paints_as_the_stock_pipeline(
    pipelines: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pipelines["sdxl"], tmp_path / "sdxl"))
    config = json.loads((folder / "vae/config.json").read_text())
    moments = {"latents_mean": [0.1, -0.2, 0.3, 0.0], "latents_std": [0.5, 1.5, 2.0, 1.0]}
    (folder / "vae/config.json").write_text(json.dumps({**config, **moments}))
    how = Sampling(steps=4, guidance=5.0, strength=0.5)
    made = restyle(open_model("inpainter", f"hf:{folder}").model, picture(), PROMPTS, [1, 2], how)
    theirs = Stock({"moments": folder})("moments", "StableDiffusionXLImg2ImgPipeline")(
        prompt=PROMPTS,
        image=[picture()] * 2,
        strength=0.5,
        num_inference_steps=4,
        guidance_scale=5.0,
        generator=generators(1, 2),
    )
    assert difference(made, theirs.images) <= 1


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
