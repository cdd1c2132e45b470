from __future__ import annotations

import numpy as np
import pytest
import torch
from generative_world import ALL_THERE, EDITOR, pipeline, seen

from fairgate.portraits.draw import draw
from fairgate.portraits.editor import widened
from fairgate.portraits.generator_models import new_unet
from fairgate.portraits.generator_words import TEMPLATES
from fairgate.portraits.scene import scene_of
from fairgate.portraits.standin_data import portrait
from fairgate.portraits.world import ATTRIBUTES, LABELS, PERSON, SUBJECTS, caption

trained = pytest.mark.skipif(not ALL_THERE, reason="no trained models here: run `dvc pull`")
HELD_OUT = 31


@pytest.fixture(scope="module")
def edits():
    """Jobs (subject, skin tone, gender before, gender asked for), the pictures before and after, and masks."""
    jobs = [
        (subject, tone, before, asked)
        for number, subject in enumerate(SUBJECTS)
        for tone in ATTRIBUTES["skin_tone"][number % 2 :: 2]
        for before in ATTRIBUTES["gender"]
        for asked in ATTRIBUTES["gender"]
    ]
    templates = list(TEMPLATES)
    texts = [templates[place % 4].format(TEMPLATES[templates[place % 4]][job[3]]) for place, job in enumerate(jobs)]
    drawn = [portrait(scene_of(HELD_OUT, job[0], place), *job[:3]) for place, job in enumerate(jobs)]
    scenes = [draw(scene_of(HELD_OUT, job[0], place), *job[:3]).reduce(3) for place, job in enumerate(jobs)]
    out = pipeline("StableDiffusionInstructPix2PixPipeline", EDITOR)(
        texts,
        image=scenes,
        num_inference_steps=20,
        guidance_scale=3.0,
        image_guidance_scale=1.5,
        generator=[torch.Generator().manual_seed(place) for place in range(len(jobs))],
        output_type="np",
    ).images
    after = (out * 255).round().astype(np.uint8)
    return jobs, np.stack([np.asarray(scene) for scene in scenes]), after, [one.mask[1::3, 1::3] for one in drawn]


@trained
def test_an_edit_changes_gender_presentation(edits):
    jobs, _, after, _ = edits
    genders = ATTRIBUTES["gender"]
    now = seen(after, [caption(PERSON, gender=gender) for gender in genders])
    assert (now == [genders.index(job[3]) for job in jobs]).mean() >= 0.95


@trained
def test_an_edit_keeps_outfit_and_skin_tone(edits):
    jobs, _, after, _ = edits
    tones = ATTRIBUTES["skin_tone"]
    assert (seen(after, [caption(label) for label in LABELS]) == [LABELS.index(job[0]) for job in jobs]).mean() >= 0.9
    shown = seen(after, [caption(PERSON, skin_tone=tone) for tone in tones])
    assert (shown == [tones.index(job[1]) for job in jobs]).mean() >= 0.9


@trained
def test_an_edit_keeps_the_background(edits):
    _, before, after, masks = edits
    off = np.abs(before.astype(float) - after).mean(axis=3)
    assert np.mean([difference[:10][~mask[:10]].mean() for difference, mask in zip(off, masks, strict=True)]) < 10


def test_the_widened_unet_starts_as_the_generators():
    unet = new_unet(3).eval()
    wide = widened(unet, 4).eval()
    latents, text = torch.randn(1, 4, 8, 8), torch.randn(1, 24, 64)
    with torch.inference_mode():
        expected = unet(latents, 500, text).sample
        found = wide(torch.cat([latents, torch.randn(1, 4, 8, 8)], dim=1), 500, text).sample
    assert torch.allclose(found, expected, atol=1e-5)
