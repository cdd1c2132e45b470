"""Small steps: colours, limits, likenesses, what an image was made with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fairgate.builds.steps import Meter, SetRows, Trace
from fairgate.builds.steps.filters import Forget, Likeness, Within, first_of_each, pixel_digest, unique_colours
from fairgate.builds.steps.perceive import VisualQuestion
from fairgate.builds.steps.pictures import made_with, sampling, spending
from fairgate.ground.errors import RecipeError
from fairgate.ground.randomness import stream
from fairgate.models.generation import Sampling


def noise(seed, side=64):
    return Image.fromarray(stream(seed, "noise").integers(0, 256, (side, side, 3), dtype=np.uint8))


def a_set(**columns):
    return SetRows("doctor-0", "doctor", ("test",), rows=[{"member": "base"}], columns=columns)


@pytest.mark.parametrize("side", [7, 300])
def test_colours_are_counted_as_a_set_of_triples_counts_them(side):
    image = noise(1, side).quantize(200).convert("RGB")
    assert unique_colours(image) == len({tuple(pixel) for pixel in np.asarray(image).reshape(-1, 3).tolist()})
    assert unique_colours(noise(1, side).convert("L")) <= 256
    big = noise(2, side)
    assert unique_colours(big) == len({tuple(pixel) for pixel in np.asarray(big).reshape(-1, 3).tolist()})


def test_a_number_within_its_limits_is_kept_and_one_beyond_tells_by_how_much():
    step = Within("score", "odd", at_least=0.2, at_most=0.8)
    assert step.judge(a_set(score=0.2)) is None
    assert step.judge(a_set(score=0.8)) is None
    low, high = step.judge(a_set(score=0.1)), step.judge(a_set(score=0.9))
    assert (low.reason, low.measured, low.limit) == ("odd", 0.1, 0.2)
    assert (high.measured, high.limit) == (0.9, 0.8)
    assert step.judge(a_set(score=float("nan"))).reason == "odd"
    with pytest.raises(RecipeError, match="has no number 'score'"):
        step.judge(a_set(score=None))


def test_an_answer_is_weighed_among_all_or_against_another_one():
    told = {"yes": 0.3, "no": 0.1}
    assert VisualQuestion("c", "?", "yes").value(told) == 0.3
    assert VisualQuestion("c", "?", "yes", against="no").value(told) == pytest.approx(0.75)
    assert VisualQuestion("c", "?", "yes", against="no").value({"yes": 0.0, "no": 0.0}) == 0.0


def test_equal_pixels_share_a_likeness_whatever_their_mode():
    assert pixel_digest(noise(3)) == pixel_digest(noise(3).convert("RGBA")) != pixel_digest(noise(4))
    assert pixel_digest(Image.new("RGB", (2, 3))) != pixel_digest(Image.new("RGB", (3, 2)))
    assert pixel_digest(noise(3)) == int(float(pixel_digest(noise(3))))


def test_of_equal_pictures_the_first_goes_on_whatever_the_ledger_does_to_numbers():
    sets = [a_set() for _ in range(3)]
    for rows, seed in zip(sets, (1, 2, 1), strict=True):
        rows.rows[0]["image"] = noise(seed)
    Likeness().make(sets, Meter())
    traces = [
        Trace(str(place), "doctor", None, None, {"likeness": float(rows.columns["likeness"])}, ("base",))
        for place, rows in enumerate(sets)
    ]
    assert [int(trace.numbers["likeness"]) for trace in traces] == [rows.columns["likeness"] for rows in sets]
    assert [trace.set_id for trace in first_of_each(traces)] == ["0", "1"]


def test_forgotten_columns_are_gone_and_absent_ones_no_trouble():
    rows = a_set(base=b"x", kept=1)
    Forget(("base", "other")).make([rows], Meter())
    assert rows.columns == {"kept": 1}


def test_the_meter_counts_what_a_model_spends_inside_the_block():
    model, meter = SimpleNamespace(spent=Counter({"unet": 5})), Meter()
    with spending(model, meter):
        model.spent["unet"] += 7
        model.spent["vae"] += 1
    assert meter.counts == {"unet": 7, "vae": 1}


@pytest.mark.parametrize("text", ["[1]", '{"steps": 4}', '{"steps": 4, "guidance": 1.0, "speed": 2}', "steps"])
def test_text_that_does_not_say_how_an_image_was_made_is_refused(text):
    with pytest.raises(RecipeError, match="column 'how'"):
        sampling(text)


def test_how_an_image_was_made_comes_back_as_it_was():
    how = Sampling(40, 7.5, strength=0.7, refine_from=0.8, size=1024)
    for refine_guidance in (None, 5.0):
        how = replace(how, refine_guidance=refine_guidance)
        assert sampling(made_with(SimpleNamespace(uri="hf:model"), 3, how)["how"]) == how


def test_a_row_without_a_guidance_for_the_refiner_reads_as_it_did_before_there_was_one():
    text = made_with(SimpleNamespace(uri="hf:model"), 3, Sampling(40, 7.5, refine_from=0.8))["how"]
    assert text == (
        '{"guidance": 7.5, "image_guidance": 1.5, "negative": null, "refine_from": 0.8, "scheduler": null, '
        '"size": null, "steps": 40, "strength": 1.0}'
    )
    assert sampling(text).refine_guidance is None
