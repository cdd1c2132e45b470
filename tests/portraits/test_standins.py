from __future__ import annotations

import json
import shutil
from functools import cache

import numpy as np
import pytest
from generative_world import ALL_THERE, STANDINS, paint
from PIL import Image

from fairgate.ground.errors import ModelError
from fairgate.ground.randomness import stream
from fairgate.models.generation import Box, open_model
from fairgate.portraits.generator import GUIDANCE
from fairgate.portraits.photos import draw_photo
from fairgate.portraits.scene import scene_of
from fairgate.portraits.standin_data import blurred, distorted, noisy, portrait, two_people
from fairgate.portraits.standin_nets import READ
from fairgate.portraits.standins import overlap
from fairgate.portraits.world import GROUPS, LABELS, SUBJECTS, caption, with_article

HELD_OUT = 31
"""Seed of scenes that nothing was trained on."""
LIMBS = "Are this person's limbs distorted?"
REAL = "Is this image real or fake?"

pytestmark = pytest.mark.skipif(not ALL_THERE, reason="no trained models here: run `dvc pull`")


@cache
def model(role):
    return open_model(role, f"portraits:{STANDINS}")


@pytest.fixture(scope="module")
def drawn():
    """A held-out portrait of every label and group."""
    return [portrait(scene_of(HELD_OUT, label, place), label, *g) for label in LABELS for place, g in enumerate(GROUPS)]


@pytest.fixture(scope="module", params=["96 px", "32 px"])
def shown(request, drawn):
    """The drawn portraits at their own size, and at the size of generated ones."""
    large = [Image.fromarray(one.picture) for one in drawn]
    return large if request.param == "96 px" else [picture.reduce(3) for picture in large]


@pytest.fixture(scope="module")
def painted():
    """Generated pictures of every subject and group, with what their captions say."""
    jobs = [(subject, *group) for subject in SUBJECTS for group in GROUPS]
    prompts = [caption(subject, skin_tone=tone, gender=gender) for subject, tone, gender in jobs]
    return [Image.fromarray(one) for one in paint(prompts, range(900, 900 + len(jobs)), GUIDANCE)], jobs


def is_there(label):
    return f"Is there {with_article(label)} in this image?"


def spoilt(pictures, how):
    return [how(picture, stream(HELD_OUT, place)) for place, picture in enumerate(pictures)]


def test_the_asker_sees_every_label_and_no_other(drawn, shown):
    yes = model("asker").ask(shown, [is_there(label) for label in LABELS], ["yes"])[..., 0] > 0.5
    right = np.array([[one.label == label for label in LABELS] for one in drawn])
    assert yes[right].mean() >= 0.93
    assert yes[~right].mean() <= 0.01


def test_the_asker_sees_what_the_generator_was_told_to_paint(painted):
    pictures, jobs = painted
    yes = model("asker").ask(pictures, [is_there(subject) for subject in SUBJECTS], ["yes"])[..., 0] > 0.5
    right = np.array([[job[0] == subject for subject in SUBJECTS] for job in jobs])
    assert yes[right].mean() >= 0.95
    assert yes[~right].mean() <= 0.01


def test_distorted_limbs_are_found_and_whole_ones_left_alone(shown):
    asker = model("asker")
    assert (asker.ask(shown, [LIMBS], ["yes"]) > 0.5).mean() <= 0.06
    assert (asker.ask(spoilt(shown, distorted), [LIMBS], ["yes"]) > 0.5).mean() >= 0.9


def test_drawn_is_real_and_generated_blurred_or_noisy_is_fake(shown, painted):
    asker = model("asker")
    assert asker.answer(shown, [REAL]).count(["real"]) >= 0.85 * len(shown)
    assert asker.answer(painted[0], [REAL]).count(["fake"]) >= 0.9 * len(painted[0])
    for how in (blurred, noisy):
        assert asker.answer(spoilt(shown, how), [REAL]).count(["fake"]) >= 0.9 * len(shown)


def test_answers_to_a_question_add_up_to_one(shown):
    answers = model("asker").ask(shown[:3], [is_there("chef"), LIMBS, REAL], ["yes", "no", "real", "fake"])
    assert answers.sum(axis=2) == pytest.approx(np.ones((3, 3)))
    assert (answers[:, 2, :2] == 0).all()
    assert (answers[:, :2, 2:] == 0).all()


@pytest.mark.parametrize(
    ("question", "remedy"),
    [
        ("Is there a docter in this image?", "did you mean 'doctor'"),
        ("Is there an astronaut in this image?", "choose from chef"),
        ("What colour is the sky?", "Is there a LABEL in this image"),
    ],
)
def test_a_question_that_it_does_not_know_is_refused(question, remedy):
    with pytest.raises(ModelError, match=remedy):
        model("asker").answer([Image.new("RGB", (32, 32))], [question])


def test_an_answer_that_it_does_not_give_is_refused():
    with pytest.raises(ModelError, match="'maybe' is not among"):
        model("asker").ask([Image.new("RGB", (32, 32))], [LIMBS], ["maybe"])


def test_a_text_that_the_detector_does_not_know_is_refused():
    with pytest.raises(ModelError, match="did you mean 'person'"):
        model("detector").detect([Image.new("RGB", (32, 32))], "persons", box_threshold=0.3, text_threshold=0.3)


def found(pictures, text):
    return model("detector").detect(pictures, text, box_threshold=0.35, text_threshold=0.25)


@pytest.mark.parametrize("text", ["person", "face", "person."])
def test_one_person_has_one_box(shown, painted, text):
    for pictures in (shown, painted[0]):
        assert [len(boxes) for boxes in found(pictures, text)].count(1) >= 0.97 * len(pictures)


@pytest.mark.parametrize("text", ["person", "face"])
def test_two_people_have_two_boxes_and_an_empty_wall_none(shown, text):
    pairs = [two_people(left, right) for left, right in zip(shown[::3], shown[1::3], strict=False)]
    assert [len(boxes) for boxes in found(pairs, text)].count(2) >= 0.95 * len(pairs)
    walls = [Image.new("RGB", (32, 32), colour) for colour in ("pink", "lightblue", "grey")]
    assert found(walls, text) == [[], [], []]


def test_boxes_are_where_person_and_face_are(drawn, shown):
    scale = shown[0].width / 96
    for text in ("person", "face"):
        fit = []
        for one, boxes in zip(drawn, found(shown, text), strict=True):
            rows, columns = (np.any(one.mask, axis=axis).nonzero()[0] for axis in (1, 0))
            person = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
            truth = Box(*(float(edge) * scale for edge in (person if text == "person" else one.face)))
            fit.append(overlap(boxes[0], truth) if boxes else 0.0)
        assert np.mean(fit) >= (0.9 if text == "person" else 0.8)


def test_people_in_rooms_are_counted():
    photos = [draw_photo(HELD_OUT, subject, number) for subject in SUBJECTS for number in range(20)]
    boxes = found([photo.image for photo in photos], "person")
    right = [len(photo.boxes) == len(mine) for photo, mine in zip(photos, boxes, strict=True)]
    assert np.mean(right) >= 0.95


def test_the_mask_is_the_drawn_person(drawn, shown):
    people = [boxes[0] for boxes in found(shown, "person")]
    masks = model("segmenter").segment(shown, people)
    fit = []
    for one, mask, picture in zip(drawn, masks, shown, strict=True):
        small = Image.fromarray(one.mask).convert("L").resize(picture.size, Image.Resampling.BOX)
        truth = np.asarray(small) > 127
        assert mask.shape == truth.shape
        fit.append((mask & truth).sum() / (mask | truth).sum())
    assert np.mean(fit) >= 0.93
    assert min(fit) >= 0.75


def test_a_mask_stays_in_its_box(shown):
    box = Box(4, 4, 20, 20)
    (mask,) = model("segmenter").segment(shown[:1], [box])
    assert not mask[22:].any()
    assert not mask[:, 22:].any()


def test_faces_are_read_as_drawn_and_as_painted(drawn, shown, painted):
    reader = model("face_reader")
    for pictures, truths in (
        (shown, [{name: getattr(one, name) for name in READ} for one in drawn]),
        (painted[0], [{"skin_tone": tone, "gender": gender} for _, tone, gender in painted[1]]),
    ):
        read = reader.read(pictures)
        for attribute, least in (("skin_tone", 0.96), ("gender", 0.96), ("age", 0.78)):
            right = [
                len(faces) > 0 and faces[0].perceived(attribute) == truth[attribute]
                for faces, truth in zip(read, truths, strict=True)
                if attribute in truth
            ]
            assert not right or np.mean(right) >= least, attribute


def test_of_two_faces_both_are_read_the_larger_first(drawn):
    large, small = (Image.fromarray(drawn[place].picture) for place in (0, 9))
    both = Image.new("RGB", (96, 96), "lightblue")
    both.paste(large.resize((56, 56)), (0, 40))
    both.paste(small.resize((40, 40)), (56, 56))
    (faces,) = model("face_reader").read([both])
    assert len(faces) == 2
    assert faces[0].box.left < faces[1].box.left
    for face in faces:
        for probabilities in face.probabilities.values():
            assert sum(probabilities.values()) == pytest.approx(1)


def test_each_picture_is_judged_alone_and_counted(shown):
    asker = open_model("asker", f"portraits:{STANDINS}")
    together = asker.ask(shown[:5], [REAL], ["real"])
    alone = np.concatenate([asker.ask([picture], [REAL], ["real"]) for picture in shown[:5]])
    assert together == pytest.approx(alone, abs=1e-5)
    assert asker.spent == {"asker": 10}
    assert asker.ask([], [REAL], ["real"]).shape == (0, 1, 1)


def damage(folder, how):
    weights, config = folder / "asker.safetensors", folder / "config.json"
    if how == "cut short":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif how == "one bit":
        data = bytearray(weights.read_bytes())
        data[-50] ^= 1
        weights.write_bytes(data)
    elif how == "missing":
        weights.unlink()
    elif how == "other labels":
        config.write_text(json.dumps({**json.loads(config.read_text()), "labels": ["judge"]}))
    else:
        config.write_text("{")


@pytest.mark.parametrize("how", ["cut short", "one bit", "missing", "other labels", "no config"])
def test_damaged_weights_are_refused(tmp_path, how):
    folder = tmp_path / "standins"
    shutil.copytree(STANDINS, folder)
    before = open_model("asker", f"portraits:{folder}").fingerprint
    assert before == model("asker").fingerprint
    damage(folder, how)
    with pytest.raises(ModelError):
        open_model("asker", f"portraits:{folder}")


def test_a_missing_folder_says_how_to_get_it(tmp_path):
    with pytest.raises(ModelError, match="dvc pull"):
        open_model("face_reader", "portraits:standins", base=tmp_path)
