"""Refusals of associations, edits and neighbours, word for word: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fairgate.errors import MetricError
from fairgate.metrics import (
    association,
    average_face,
    c_asc,
    differential_association,
    flip_rate,
    implicit_association,
    individual_typology_angle,
    knn_accept,
    neighbour_shares,
    skin_mask,
    top_k_similarity,
    word_strength,
)

IMAGE = np.full((2, 3, 3), 90, dtype=np.uint8)
MASK = np.ones((2, 3), dtype=bool)
CODES = np.array([0, 1])
NAN = float("nan")

REFUSALS: dict[str, Callable[[], object]] = {
    "constant": lambda: c_asc([[0.0, 1.0], [2.0, 2.0]], CODES, groups=2),
    "ddof": lambda: c_asc([[0.0, 1.0]], CODES, groups=2, ddof=-1),
    "images": lambda: association([[1.0, 2.0]], [[1.0], [2.0]]),
    "scale": lambda: association([[1.0]], [[2.0]], scale=2.0),
    "share": lambda: differential_association(0.5, 2.0),
    "probability": lambda: implicit_association([0.5, 1.5], CODES, groups=2),
    "incomplete": lambda: implicit_association([0.5, 0.5], CODES, groups=2, sets=[3, 4]),
    "pixels": lambda: skin_mask(IMAGE / 255.0),
    "rule": lambda: skin_mask(IMAGE, rule="hsv"),  # type: ignore[arg-type]
    "mask": lambda: individual_typology_angle(IMAGE, MASK[0]),
    "fraction": lambda: individual_typology_angle(IMAGE, MASK, min_fraction=1.5),
    "no face": lambda: average_face([]),
    "sizes": lambda: average_face([IMAGE, IMAGE[:1]]),
    "flips": lambda: flip_rate([0, 1], [0]),
    "kinds": lambda: flip_rate(["man"], [0]),
    "class": lambda: flip_rate([0, -1], [0, 0]),
    "no class": lambda: flip_rate(np.array([], dtype=int), np.array([], dtype=int)),
    "dimensions": lambda: neighbour_shares([[0.0]], [0], [[0.0, 1.0]], [0], k=1),
    "k": lambda: neighbour_shares([[0.0]], [0], [[0.0]], [0], k=2),
    "threshold": lambda: knn_accept([[0.0]], [0], [[0.0]], [0], k=1, tau_real=0.5, tau_group=2.0),
}
EXPECTED: dict[str, tuple[str, str, str]] = {
    "constant": (
        "a query has the same score for every image, so that no standard deviation can be divided by.",
        "scores: query 1",
        "check the prompt's embedding; a prompt that tells no two images apart has no association",
    ),
    "ddof": (
        "ddof is -1.",
        "ddof",
        "use 1 (sample) or 0 (population)",
    ),
    "images": (
        "errors_a holds 1 images and errors_b 2.",
        "errors_b",
        "pass both losses of the same images, in the same order",
    ),
    "scale": (
        "the scale is 2.0, with soft=False.",
        "scale",
        "pass a positive scale, with soft=True",
    ),
    "share": (
        "s_y is 2.0.",
        "s_y",
        "pass what `association` returns, 0 to 1",
    ),
    "probability": (
        "p_positive holds values from 0.5 to 1.5.",
        "p_positive",
        "pass probabilities: softmax_probability over the two labels",
    ),
    "incomplete": (
        "none of 2 sets shows every one of the 2 groups.",
        "sets",
        "pass counterfactual sets with one image of every declared group, or leave `sets` out",
    ),
    "pixels": (
        "rgb is float64 of shape (2, 3, 3), but 8-bit RGB of shape (h, w, 3) is needed.",
        "rgb",
        'pass np.asarray(image.convert("RGB")), or scale 0..1 floats by 255, round and cast to uint8',
    ),
    "rule": (
        "the skin rule is 'hsv'.",
        "rule",
        "use 'hue' or 'kolkur'",
    ),
    "mask": (
        "mask is bool of shape (3,), but bool of shape (2, 3) is needed.",
        "mask",
        "pass skin_mask(rgb), or a segmentation of the same image compared with its skin label",
    ),
    "fraction": (
        "min_fraction is 1.5.",
        "min_fraction",
        "pass a share, 0 to 1",
    ),
    "no face": (
        "there is no image to average.",
        "images",
        "pass at least one aligned image",
    ),
    "sizes": (
        "image 1 has shape (1, 3, 3), the first (2, 3, 3).",
        "images: 1",
        "align and crop all faces to one size first",
    ),
    "flips": (
        "before has shape (2,), after (1,).",
        "after",
        "pass one class per original, (images,), and its edits as (images,) or (images, edits)",
    ),
    "kinds": (
        "before holds <U3 classes, after int64.",
        "after",
        "pass codes of one coding for both, or names for both",
    ),
    "class": (
        "before holds no class for some images (int64 of shape (2,)).",
        "before",
        "pass a class code (0, 1, ...) or a name for every image; leave out, and count, those without one",
    ),
    "no class": (
        "before holds no class for some images (int64 of shape (0,)).",
        "before",
        "pass a class code (0, 1, ...) or a name for every image; leave out, and count, those without one",
    ),
    "dimensions": (
        "real embeddings have 1 dimensions, synthetic ones 2.",
        "synthetic",
        "embed both with one model",
    ),
    "k": (
        "k is 2, but an image has 1 possible neighbours.",
        "k",
        "choose k between 1 and 1",
    ),
    "threshold": (
        "tau_group is 2.0.",
        "tau_group",
        "pass a share of neighbours, 0 to 1",
    ),
}

PLACES: list[tuple[str, Callable[[], object]]] = [
    ("scores: first at queries 0, images 1", lambda: c_asc([[0.0, NAN]], CODES, groups=2)),
    ("labels: first at image 0", lambda: c_asc([[0.0, 1.0]], np.array([2, 1]), groups=2)),
    ("scores: first at queries 0, images 0", lambda: top_k_similarity([[NAN, 1.0]], 1)),
    ("values: first at words 0", lambda: word_strength([NAN], [1.0])),
    ("baseline: first at baseline words 1", lambda: word_strength([1.0], [1.0, NAN])),
    ("errors_a: first at images 0, prompts 0", lambda: association([[NAN]], [[1.0]])),
    ("errors_b: first at images 0, prompts 0", lambda: association([[1.0]], [[NAN]])),
    ("p_positive: first at images 1", lambda: implicit_association([0.5, NAN], CODES, groups=2)),
    ("rgb", lambda: skin_mask(MASK)),
    ("rgb", lambda: individual_typology_angle(MASK, MASK)),
    ("image 0", lambda: average_face([MASK])),
    ("real: first at images 0, dim 0", lambda: neighbour_shares([[NAN]], [0], [[0.0]], [0], k=1)),
    ("synthetic: first at images 0, dim 0", lambda: neighbour_shares([[0.0]], [0], [[NAN]], [0], k=1)),
    ("real_group: first at image 0", lambda: neighbour_shares([[0.0]], [-2], [[0.0]], [0], k=1)),
    ("target_group: first at image 0", lambda: neighbour_shares([[0.0]], [0], [[0.0]], [-1], k=1)),
]


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_says_what_is_wrong_where_and_what_to_do(name: str) -> None:
    with pytest.raises(MetricError) as caught:
        REFUSALS[name]()
    assert (caught.value.problem, caught.value.where, caught.value.remedy) == EXPECTED[name]


@pytest.mark.parametrize(("where", "call"), PLACES, ids=[place for place, _ in PLACES])
def test_each_input_is_named_where_it_is_wrong(where: str, call: Callable[[], object]) -> None:
    with pytest.raises(MetricError) as caught:
        call()
    assert caught.value.where == where
