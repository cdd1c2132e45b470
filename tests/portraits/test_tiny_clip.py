from __future__ import annotations

import numpy as np
import open_clip
import pytest
import torch
from clip_answers import embed, probabilities
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.portraits import clip
from fairgate.portraits.draw import draw
from fairgate.portraits.pool import draw_set
from fairgate.portraits.scene import scene_of
from fairgate.portraits.training import CheckpointPlan, targets, train, train_model
from fairgate.portraits.world import (
    ATTRIBUTES,
    BASE_LABELS,
    GROUPS,
    LABELS,
    PROMPT_TEMPLATE,
    RETRIEVAL_PROMPTS,
    SUBJECTS,
    caption,
    training_caption,
    with_article,
)

PROMPTS = [
    *(PROMPT_TEMPLATE.format(label=label) for label in LABELS),
    *(p.format(subject=s, a_subject=with_article(s)) for p in RETRIEVAL_PROMPTS for s in SUBJECTS),
    *(caption("engineer", skin_tone=tone, gender="male") for tone in ATTRIBUTES["skin_tone"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "untrained"
    clip.save(clip.new_model(7), folder)
    return folder


@pytest.fixture(scope="module")
def pool():
    return np.stack([draw_set(9, label, 0) for label in LABELS])[None]


def test_no_word_of_a_prompt_is_unknown():
    unknown = clip.vocabulary_ids()["[UNK]"]
    assert not (clip.tokenize(PROMPTS) == unknown).any()
    assert set(BASE_LABELS) <= set(LABELS)


def test_open_clips_own_tokenizer_gives_the_same_ids(folder):
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    texts = [*PROMPTS, "An Astronaut on the moon", "a photo of " + "a doctor " * 20]
    assert torch.equal(tokenizer(texts), clip.tokenize(texts))


def test_open_clips_own_loader_reproduces_the_embeddings(folder):
    theirs, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    ours = clip.load(folder)
    theirs.eval()
    scene = scene_of(0, "chef", 1)
    pictures = torch.stack([preprocess(draw(scene, "chef", *group)) for group in GROUPS])
    with torch.inference_mode():
        assert torch.equal(theirs.encode_text(clip.tokenize(PROMPTS)), ours.encode_text(clip.tokenize(PROMPTS)))
        images = theirs.encode_image(pictures, normalize=True)
    assert torch.allclose(images, embed(ours, draw_set(0, "chef", 1)), atol=1e-5)


def test_the_model_has_about_a_million_parameters():
    assert 500_000 < sum(p.numel() for p in clip.new_model(0).parameters()) < 1_500_000


def test_weights_depend_on_the_seed_and_leave_the_global_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one, same, other = (clip.new_model(seed).visual.proj for seed in (5, 5, 6))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.nightly
def test_a_few_steps_teach_the_labels_the_same_way_each_time(pool):
    def p_label_after(steps: int) -> float:
        model = clip.new_model(1)
        train(
            model,
            pool,
            targets("base"),
            CheckpointPlan(seed=1, sets=1, steps=steps, learning_rate=2e-3, even_hand=(0, 0)),
        )
        answers = probabilities(model, embed(model, pool[0].reshape(-1, clip.SIZE, clip.SIZE, 3)), LABELS)
        right = answers.reshape(len(LABELS), len(GROUPS), len(LABELS))[range(len(LABELS)), :, range(len(LABELS))]
        return float(right.mean())

    assert p_label_after(24) > 1.2 * p_label_after(0)
    assert p_label_after(2) == p_label_after(2)


def test_training_captions_name_what_they_are_told_to():
    rng = stream(0, "test")
    seen = {training_caption(rng, "engineer", skin_tone="dark", gender="female") for _ in range(200)}
    assert all(text.endswith("dark-skinned female engineer") for text in seen)
    assert "dark-skinned female engineer" in seen
    assert {"a photo of an engineer", "a photo of a engineer", "engineer"} <= {
        training_caption(rng, "engineer") for _ in range(200)
    }


def test_a_missing_checkpoint_says_how_to_get_it(tmp_path):
    with pytest.raises(ModelError, match="dvc pull"):
        clip.load(tmp_path / "base")


@pytest.mark.parametrize(
    ("name", "start", "says"),
    [("base", "base", "leave out --from"), ("tuned", None, "give --from"), ("other", None, "choose from")],
)
def test_a_checkpoint_that_cannot_be_trained_is_refused(tmp_path, name, start, says):
    with pytest.raises(ModelError, match=says):
        train_model(name, tmp_path / "out", start=tmp_path / start if start else None)


def test_pictures_are_resized_as_open_clip_does():
    scene = scene_of(0, "pilot", 4)
    picture = draw(scene, "pilot", *GROUPS[0]).resize((clip.SIZE, clip.SIZE), Image.Resampling.BICUBIC)
    assert np.array_equal(draw_set(0, "pilot", 4)[0], np.asarray(picture))
