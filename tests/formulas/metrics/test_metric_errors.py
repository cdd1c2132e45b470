"""What the metrics besides the rankings refuse, with the remedy of each."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import Refusal, check

from fairgate.formulas.metrics import (
    SetSums,
    accuracy_by_group,
    association,
    average_face,
    balanced_accuracy,
    c_asc,
    corrected_change,
    corrected_shares,
    differential_association,
    effect_size,
    f1_by_label,
    fitzpatrick_type,
    flip_rate,
    implicit_association,
    individual_typology_angle,
    intersection_over_union,
    knn_accept,
    mutual_information,
    neighbour_shares,
    pair_choices,
    permutation_p,
    set_std,
    share_distance,
    skin_mask,
    softmax_probability,
)
from fairgate.ground.errors import MetricError

ONE = [[0.1, 0.4, 0.2, 0.3]]
HALVES = np.array([0, 1, 0, 1])
PIXELS = np.full((2, 2, 3), 90, np.uint8)

EIGHT_BITS = 'pass np.asarray(image.convert("RGB")), or scale 0..1 floats by 255, round and cast to uint8'
MASK = "pass skin_mask(rgb), or a segmentation of the same image compared with its skin label"
EDITS = "pass one class per original, (images,), and its edits as (images,) or (images, edits)"
CLASSES = "pass a class code (0, 1, ...) or a name for every image; leave out, and count, those without one"

REFUSALS = {
    "counts of other labels": Refusal(
        lambda: f1_by_label([1, 2], [1, 2, 3], [1, 2]), "count hits, given and actual images for the same labels"
    ),
    "more hits than images": Refusal(
        lambda: balanced_accuracy([3, 1], [2, 1]),
        "count hits among the images that were given a label, and that are of it",
    ),
    "a prompt that tells nobody apart": Refusal(
        lambda: c_asc([*ONE, [0.5] * 4], HALVES, groups=2),
        "check the prompt's embedding; a prompt that tells no two images apart has no association",
    ),
    "scores whose squares overflow": Refusal(
        lambda: c_asc([[1e200, -1e200]], np.array([0, 1]), groups=2),
        "divide the scores by a constant: C-ASC does not depend on their unit",
    ),
    "sums of squares that overflow": Refusal(
        lambda: SetSums.of(np.array([1e200, -1e200]), np.array([0, 1]), np.array([0, 1]), groups=2, n_sets=2),
        "pass finite scores below 1e100 in size",
    ),
    "a histogram of one bin": Refusal(
        lambda: mutual_information([[0.0], [1.0]], [0, 1], bins=1),
        "give at least 2 bins and a sigma of at least 0 (Wang et al. take 64 and 1)",
    ),
    "an unknown ddof": Refusal(lambda: c_asc(ONE, HALVES, groups=2, ddof=2), "use 1 (sample) or 0 (population)"),
    "choices by losses of other images": Refusal(
        lambda: pair_choices([[1.0], [1.0]], [[1.0]]), "pass both losses of the same images, in the same order"
    ),
    "losses of other images": Refusal(
        lambda: association([[1.0], [1.0]], [[1.0]]), "pass both losses of the same images, in the same order"
    ),
    "an association above 1": Refusal(
        lambda: differential_association(1.5, 0.5), "pass what `association` returns, 0 to 1"
    ),
    "an association below 0": Refusal(
        lambda: differential_association(0.5, -0.5), "pass what `association` returns, 0 to 1"
    ),
    "no probability": Refusal(
        lambda: implicit_association([0.5, 1.25], np.array([0, 1]), groups=2),
        "pass probabilities: softmax_probability over the two labels",
    ),
    "a negative probability": Refusal(
        lambda: implicit_association([-0.25, 0.5], np.array([0, 1]), groups=2),
        "pass probabilities: softmax_probability over the two labels",
    ),
    "no complete set": Refusal(
        lambda: implicit_association([0.5, 0.5], np.array([0, 1]), groups=2, sets=["a", "b"]),
        "pass counterfactual sets with one image of every declared group, or leave `sets` out",
    ),
    "implicit association of one group": Refusal(
        lambda: implicit_association([0.5, 0.5], np.array([0, 0]), groups=1),
        "declare every group of the attribute, also those that a gallery may lack",
    ),
    "a logit scale of 0": Refusal(
        lambda: softmax_probability(ONE, 0, scale=0.0), "pass the model's positive scale, or None"
    ),
    "an infinite logit scale": Refusal(
        lambda: softmax_probability(ONE, 0, scale=np.inf), "pass the model's positive scale, or None"
    ),
    "a column that does not exist": Refusal(
        lambda: softmax_probability(ONE, 4), "declare more than 4, or correct the codes"
    ),
    "half right": Refusal(
        lambda: accuracy_by_group([0.5, 1.0], np.array([0, 0]), 1),
        "pass whether each image was right; use group_means for any other value",
    ),
    "a lone member": Refusal(
        lambda: set_std([[0.5], [0.25]]),
        "pass (sets, members) with every member of a set in its row; drop and count incomplete sets first",
    ),
    "an unknown skin rule": Refusal(lambda: skin_mask(PIXELS, rule="glow"), "use 'hue' or 'kolkur'"),
    "floats for pixels": Refusal(lambda: skin_mask(np.zeros((2, 2, 3))), EIGHT_BITS),
    "grey pixels": Refusal(lambda: skin_mask(np.zeros((2, 2), np.uint8)), EIGHT_BITS),
    "pixels with alpha": Refusal(lambda: skin_mask(np.zeros((2, 2, 4), np.uint8)), EIGHT_BITS),
    "no pixels": Refusal(lambda: skin_mask(np.zeros((0, 2, 3), np.uint8)), EIGHT_BITS),
    "the angle of an image of numbers": Refusal(
        lambda: individual_typology_angle(np.zeros((2, 3)), np.ones((2, 3), bool)),
        'pass np.asarray(image.convert("RGB")), or scale 0..1 floats by 255, round and cast to uint8',
    ),
    "a mask of numbers": Refusal(lambda: individual_typology_angle(PIXELS, np.ones((2, 2))), MASK),
    "a mask of another image": Refusal(lambda: individual_typology_angle(PIXELS, np.ones((2, 3), bool)), MASK),
    "a share of skin above 1": Refusal(
        lambda: individual_typology_angle(PIXELS, np.ones((2, 2), bool), min_fraction=1.5), "pass a share, 0 to 1"
    ),
    "a share of skin below 0": Refusal(
        lambda: individual_typology_angle(PIXELS, np.ones((2, 2), bool), min_fraction=-0.5), "pass a share, 0 to 1"
    ),
    "the type of no angle": Refusal(
        lambda: fitzpatrick_type(float("nan")), "leave out, and count, pictures without an angle"
    ),
    "the face of nobody": Refusal(lambda: average_face([]), "pass at least one aligned image"),
    "faces of two sizes": Refusal(
        lambda: average_face([PIXELS, PIXELS, PIXELS[:1]]), "align and crop all faces to one size first"
    ),
    "a face that is no picture": Refusal(lambda: average_face([PIXELS, [0.5]]), EIGHT_BITS),
    "edits of other originals": Refusal(lambda: flip_rate([0, 1], [0, 1, 1]), EDITS),
    "edits of three axes": Refusal(lambda: flip_rate([0, 1], np.zeros((2, 1, 1), int)), EDITS),
    "originals of two axes": Refusal(lambda: flip_rate([[0], [1]], [[0], [1]]), EDITS),
    "codes against names": Refusal(
        lambda: flip_rate([0, 1], ["man", "woman"]), "pass codes of one coding for both, or names for both"
    ),
    "an edit without a class": Refusal(lambda: flip_rate([0, 1], [0, -1]), CLASSES),
    "an original without a name": Refusal(lambda: flip_rate(["man", ""], ["man", "man"]), CLASSES),
    "no edit at all": Refusal(lambda: flip_rate([0], np.zeros((1, 0), int)), CLASSES),
    "shares for classes": Refusal(lambda: flip_rate([0.5], [0.5]), CLASSES),
    "embeddings of two models": Refusal(
        lambda: neighbour_shares([[0.0]], np.array([0]), [[0.0, 0.0]], np.array([0]), k=1), "embed both with one model"
    ),
    "more neighbours than there are": Refusal(
        lambda: neighbour_shares([[0.0]], np.array([0]), [[0.0]], np.array([0]), k=2), "choose k between 1 and 1"
    ),
    "no neighbours": Refusal(
        lambda: neighbour_shares([[0.0]], np.array([0]), [[0.0]], np.array([0]), k=0, include_self=True),
        "choose k between 1 and 2",
    ),
    "a threshold above 1": Refusal(
        lambda: knn_accept([[0.0]], np.array([0]), [[0.0]], np.array([0]), k=1, tau_real=1.5, tau_group=0.5),
        "pass a share of neighbours, 0 to 1",
    ),
    "a threshold below 0": Refusal(
        lambda: knn_accept([[0.0]], np.array([0]), [[0.0]], np.array([0]), k=1, tau_real=0.5, tau_group=-0.5),
        "pass a share of neighbours, 0 to 1",
    ),
    "targets that no attribute tells apart": Refusal(
        lambda: effect_size([0.5, 0.5], [0.5]),
        "check the embeddings: targets that no attribute tells apart have no effect size",
    ),
    "targets that only rounding tells apart": Refusal(
        lambda: effect_size([0.1 + 0.2] * 3, [0.3] * 3),
        "check the embeddings: targets that no attribute tells apart have no effect size",
    ),
    "too many partitions to count": Refusal(
        lambda: permutation_p(np.arange(12.0), np.arange(12.0)),
        "pass rng=np.random.default_rng(seed), and draws=100_000",
    ),
    "boxes without a partner": Refusal(
        lambda: intersection_over_union([[0, 0, 1, 1], [0, 0, 1, 1]], [[0, 0, 1, 1]]),
        "pass both in pairs, in the same order",
    ),
    "boxes of three numbers": Refusal(
        lambda: intersection_over_union([[0, 0, 1]], [[0, 0, 1]]), "pass left, top, right and bottom"
    ),
    "boxes by their widths": Refusal(
        lambda: intersection_over_union([[5, 5, 2, 2]], [[0, 0, 1, 1]]),
        "pass left, top, right and bottom, not a width and a height",
    ),
    "boxes beyond all pixels": Refusal(
        lambda: intersection_over_union([[0, 0, 1e200, 1e200]], [[0, 0, 1e200, 1e200]]), "pass pixels of an image"
    ),
    "a confusion of other groups": Refusal(
        lambda: corrected_shares([3, 7], np.eye(3)),
        "give a row per group and a column per group, with one more for pictures in which none is perceived",
    ),
    "a group without a known picture": Refusal(
        lambda: corrected_shares([3, 7], [[9, 1], [0, 0]]),
        "count pictures; every group needs some with a known group, and some have to be perceived",
    ),
    "nothing perceived": Refusal(
        lambda: corrected_shares([0, 0], np.eye(2)),
        "count pictures; every group needs some with a known group, and some have to be perceived",
    ),
    "a reader that guesses": Refusal(
        lambda: corrected_shares([3, 7], [[5, 5], [50, 50]]),
        "use a reader that tells the groups apart, and measure it on pictures of every group",
    ),
    "a change without known pictures": Refusal(
        lambda: corrected_change(0.1, [[9, 1], [0, 0]]),
        "count pictures with and without the label, by whether the reader perceives it: [[45, 5], [5, 45]]",
    ),
    "a label that the reader guesses": Refusal(
        lambda: corrected_change(0.1, [[5, 5], [5, 5]]), "use a reader, or prompts, that tell the two apart"
    ),
    "shares of nobody": Refusal(
        lambda: share_distance([0.0, 0.0], [1, 1]), "give the share of every group, found and wanted, in the same order"
    ),
    "a target group undefined": Refusal(
        lambda: neighbour_shares([[0.0]], np.array([0]), [[0.0]], np.array([-1]), k=1), "correct the codes"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_answered_says_what_where_and_what_to_do(name: str) -> None:
    check(REFUSALS[name], MetricError)
