"""What backgrounds and captions give away: silence where nothing is planted, and what is planted is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairgate.ground.errors import DatasetError
from fairgate.ground.randomness import stream
from fairgate.studies.papers.caption_context import balanced, clusters, k_means, predictable_auc, tf_idf


@pytest.mark.parametrize("seed", range(3))
def test_vectors_that_say_nothing_are_guessed_at_chance_even_when_they_are_many(seed):
    rng = stream(seed, "silence")
    positive = np.arange(200) % 3 == 0
    assert predictable_auc(rng.normal(size=(200, 60)), positive, rng) == pytest.approx(0.5, abs=0.12)


def test_a_planted_direction_is_found_in_proportion_to_its_strength():
    rng = stream(0, "planted")
    positive = np.arange(400) % 2 == 0
    vectors = rng.normal(size=(400, 10))
    found = []
    for strength in (0.0, 0.5, 1.5, 4.0):
        shifted = vectors.copy()
        shifted[positive, 3] += strength
        found.append(predictable_auc(shifted, positive, stream(1, "folds")))
    assert found == sorted(found)
    assert found[-1] > 0.98


def test_a_sparse_row_that_counts_for_many_is_as_good_as_as_many_dense_ones():
    """Edits of one photograph share their neutral captions, and a table of words has no room for each of them."""
    rng = stream(0, "counted")
    table = rng.poisson(0.7, size=(120, 12)).astype(np.float64)
    positive = rng.random(120) < 0.2 + 0.6 * (table[:, 0] > 0)
    owner, many = np.arange(120) // 2, np.arange(120) % 4 + 1
    every = np.repeat(np.arange(120), many)

    once = predictable_auc(csr_array(table), positive, stream(1, "folds"), owner, many)

    assert once == pytest.approx(predictable_auc(table[every], positive[every], stream(1, "folds"), owner[every]))
    assert once > 0.6


def test_clusters_tell_which_words_stand_out():
    texts = ["a person rides a skateboard on a ramp"] * 40 + ["a person stands in a kitchen with an oven"] * 60
    kitchen, ramp = clusters(*tf_idf(texts), 2, stream(0, "clusters"))
    assert (kitchen.size, ramp.size) == (60, 40)
    assert ramp.rows.tolist() == list(range(40))
    assert set(ramp.words[:3]) == {"rides", "skateboard", "ramp"}


def test_neutral_words_are_no_topic():
    assert tf_idf(["The person brushes their teeth with the child"])[1] == ["brushes", "teeth"]


def test_what_an_apostrophe_parts_is_no_word():
    assert tf_idf(["The person's dog doesn't sit, they’re on the children's bed"])[1] == [
        "bed",
        "doesn't",
        "dog",
        "sit",
    ]


def test_rows_fall_to_the_centre_that_they_lie_around():
    rng = stream(0, "k-means")
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    found = k_means(csr_array(np.repeat(centres, 30, axis=0) + rng.normal(0, 0.5, (90, 2))), 3, rng)
    assert [len(set(found[start : start + 30])) for start in (0, 30, 60)] == [1, 1, 1]
    assert len(set(found)) == 3
    assert (
        len(set(k_means(csr_array(np.ones((5, 2))), 3, rng))) <= 3
    )  # equal rows leave centres empty, and nothing fails


def test_a_balanced_part_has_as_many_of_each_group():
    labels = ["male"] * 30 + ["female"] * 11
    rows = balanced(labels, stream(0, "balanced"))
    assert [labels[row] for row in rows].count("male") == 11
    assert [labels[row] for row in rows].count("female") == 11


def test_what_cannot_be_told_apart_is_refused():
    rng = stream(0, "refused")
    with pytest.raises(DatasetError, match="too few for 5 folds"):
        predictable_auc(np.zeros((8, 2)), np.arange(8) < 3, rng)
    with pytest.raises(DatasetError, match="9 clusters"):
        k_means(csr_array(np.zeros((8, 2))), 9, rng)
