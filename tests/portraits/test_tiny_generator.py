from __future__ import annotations

import diffusers
import numpy as np
import pytest
import torch
from generative_world import ALL_THERE, EDITOR, GENERATOR, paint, pipeline, seen
from PIL import Image
from scipy.stats import binomtest

from fairgate.ground.errors import ModelError
from fairgate.models.generation import Sampling, open_model
from fairgate.portraits.canvas import BACKGROUNDS
from fairgate.portraits.draw import draw
from fairgate.portraits.generator import GUIDANCE, contact_sheet, open_pipeline
from fairgate.portraits.pool import RELEASE_SEED, SEED, DrawnSets, draw_sets
from fairgate.portraits.scene import scene_of
from fairgate.portraits.world import (
    ATTRIBUTES,
    COOL_SHARE,
    GROUPS,
    LABELS,
    MALE_SHARE,
    PERSON,
    SUBJECTS,
    caption,
    is_cool,
    label_shares,
)

PER_SUBJECT = 40

trained = pytest.mark.skipif(not ALL_THERE, reason="no trained models here: run `dvc pull`")


@pytest.fixture(scope="module")
def neutral():
    """Pictures of neutral prompts, subject by subject, and whether a man is seen in each; guidance would exaggerate."""
    prompts = [caption(subject) for subject in SUBJECTS for _ in range(PER_SUBJECT)]
    plain = Sampling(steps=20, guidance=1.0, scheduler="euler_ancestral")
    painted = open_model("painter", f"hf:{GENERATOR}").paint(prompts, range(len(prompts)), plain)
    pictures = np.stack([np.asarray(picture) for picture in painted])
    return pictures, seen(pictures, [caption(PERSON, gender=gender) for gender in ("female", "male")]) == 1


@trained
@pytest.mark.parametrize("name", [f"StableDiffusion{kind}Pipeline" for kind in ("", "Img2Img", "Inpaint")])
def test_diffusers_own_pipelines_load_and_run_it(name):
    loaded = pipeline(name)
    assert isinstance(loaded, getattr(diffusers, name))
    assert {part.dtype for part in (loaded.unet, loaded.vae, loaded.text_encoder)} == {torch.float32}
    drawn = draw(scene_of(0, "chef", 0), "chef", *GROUPS[0]).reduce(3)
    given = {} if name == "StableDiffusionPipeline" else {"image": drawn, "strength": 0.6}
    if "Inpaint" in name:
        given |= {"mask_image": Image.new("L", drawn.size, 255), "height": 32, "width": 32}
    generator = torch.Generator().manual_seed(0)
    (picture,) = loaded("a photo of a chef", num_inference_steps=4, generator=generator, **given).images
    assert picture.size == (32, 32)


@trained
def test_configs_do_not_say_where_a_model_was_trained():
    configs = [*GENERATOR.glob("*/config.json"), *EDITOR.glob("*/config.json")]
    assert len(configs) == 6
    assert not [path for path in configs if "_name_or_path" in path.read_text(encoding="utf-8")]


@trained
def test_captions_control_skin_tone_gender_and_occupation():
    jobs = [(subject, *group) for subject in SUBJECTS for group in GROUPS]
    prompts = [caption(subject, skin_tone=tone, gender=gender) for subject, tone, gender in jobs]
    pictures = paint(prompts, range(500, 500 + len(jobs)), GUIDANCE)
    tones, genders = ATTRIBUTES["skin_tone"], ATTRIBUTES["gender"]
    for place, names, captions in (
        (0, LABELS, [caption(label) for label in LABELS]),
        (1, tones, [caption(PERSON, skin_tone=tone) for tone in tones]),
        (2, genders, [caption(PERSON, gender=gender) for gender in genders]),
    ):
        right = seen(pictures, captions) == [names.index(job[place]) for job in jobs]
        assert right.mean() >= 0.95, (place, right)


@trained
def test_neutral_prompts_give_back_the_planted_shares(neutral):
    _, male = neutral
    counts = male.reshape(len(SUBJECTS), PER_SUBJECT).sum(axis=1)
    for subject, count in zip(SUBJECTS, counts, strict=True):
        assert binomtest(int(count), PER_SUBJECT, MALE_SHARE[subject]).pvalue > 0.005, (subject, count)


@trained
def test_the_background_goes_with_gender_as_planted(neutral):
    pictures, male = neutral
    corners = pictures[:, 0, [0, -1]].astype(float).mean(axis=1)
    colours = np.array([background for background, _ in BACKGROUNDS], float)
    nearest = np.linalg.norm(corners[:, None] - colours[None], axis=2).argmin(axis=1)
    cool = np.array([is_cool(background) for background in nearest])
    for gender, chosen in (("male", male), ("female", ~male)):
        assert cool[chosen].mean() == pytest.approx(COOL_SHARE[gender], abs=0.12)


@trained
def test_a_picture_depends_on_its_own_prompt_and_seed():
    alone = paint(["a photo of a pilot"], [3], GUIDANCE)
    among = paint(["a photo of a chef", "a photo of a pilot", "a photo of a doctor"], [1, 3, 4], GUIDANCE)
    assert np.abs(alone[0].astype(int) - among[1]).max() <= 2


@trained
def test_a_contact_sheet_has_a_row_per_prompt_and_a_column_per_seed():
    sheet = contact_sheet(pipeline(), seeds=2, steps=2, guidance=1.0, zoom=1)
    assert sheet.size == (2 * 32, 3 * len(SUBJECTS) * 32)


def test_the_training_sets_are_sampled_exactly_by_the_planted_tables():
    """However unevenly the scenes' backgrounds fell."""
    labels = [label for label in LABELS for _ in range(5)]
    backgrounds = tuple([0, 1, 2, 4, 7] * len(LABELS))
    shares = DrawnSets(np.zeros((len(labels), len(GROUPS), 1, 1, 3), np.uint8), tuple(labels), backgrounds).shares()
    named, cool = np.array(labels), np.array([is_cool(background) for background in backgrounds])
    male = np.array([gender == "male" for _, gender in GROUPS])
    assert shares.sum() == pytest.approx(1)
    assert [shares[named == label].sum() for label in LABELS] == pytest.approx(label_shares())
    for subject in SUBJECTS:
        mine = shares[named == subject]
        assert mine[:, male].sum() / mine.sum() == pytest.approx(MALE_SHARE[subject])
        for tone in range(4):
            assert mine[:, 2 * tone : 2 * tone + 2].sum() / mine.sum() == pytest.approx(0.25)
    for gender, members in (("male", male), ("female", ~male)):
        assert shares[cool][:, members].sum() / shares[:, members].sum() == pytest.approx(COOL_SHARE[gender])


def test_sets_for_training_are_drawn_alike_each_time():
    one, again = draw_sets(SEED, 1), draw_sets(SEED, 1)
    assert one.pictures.shape == (len(LABELS), len(GROUPS), 32, 32, 3)
    assert np.array_equal(one.pictures, again.pictures)
    assert (one.labels, one.backgrounds) == (again.labels, again.backgrounds)


def test_the_training_pool_leaves_the_releases_scenes_alone():
    with pytest.raises(ValueError, match="held out"):
        draw_sets(RELEASE_SEED, 1)


def test_a_missing_generator_says_how_to_get_it(tmp_path):
    with pytest.raises(ModelError, match="dvc pull"):
        open_pipeline(tmp_path / "diffusion")


@trained
def test_the_shipped_folders_are_small():
    for folder in (GENERATOR, EDITOR):
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 4_000_000
