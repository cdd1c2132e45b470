"""What backgrounds and captions give away: silence where nothing is planted, and what is planted is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairgate.ground.errors import DatasetError
from fairgate.ground.randomness import stream
from fairgate.studies.papers.caption_context import balanced, clusters, k_means, tf_idf
from fairgate.studies.papers.group_prediction import _fitted, _Judged, predictable_auc


@pytest.mark.parametrize("seed", range(3))
def test_vectors_that_say_nothing_are_guessed_at_chance_even_when_they_are_many(seed):
    rng = stream(seed, "silence")
    positive = np.arange(200) % 3 == 0
    assert predictable_auc(rng.normal(size=(200, 60)), positive, rng).value == pytest.approx(0.5, abs=0.12)


def test_a_planted_direction_is_found_in_proportion_to_its_strength():
    rng = stream(0, "planted")
    positive = np.arange(400) % 2 == 0
    vectors = rng.normal(size=(400, 10))
    found = []
    for strength in (0.0, 0.5, 1.5, 4.0):
        shifted = vectors.copy()
        shifted[positive, 3] += strength
        found.append(predictable_auc(shifted, positive, stream(1, "folds")).value)
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
    dense = predictable_auc(table[every], positive[every], stream(1, "folds"), owner[every])

    assert once.value == pytest.approx(dense.value)
    assert once.draws == pytest.approx(dense.draws)
    assert once.n == len(every)
    assert once.value > 0.6


@pytest.mark.parametrize("sparse", [False, True])
def test_the_classifier_is_scikit_learns_in_blocks(sparse, monkeypatch):
    monkeypatch.setattr("fairgate.studies.papers.group_prediction._BLOCK", 50)
    rng = stream(0, "fitted")
    table = rng.poisson(0.5, size=(120, 8)).astype(np.float64)
    table[:, 3] = 1.0  # equal in all rows
    positive, counts = rng.random(120) < 0.2 + 0.6 * (table[:, 0] > 0), rng.integers(1, 4, 120)
    vectors = csr_array(table) if sparse else table
    slope, intercept = _fitted(vectors, np.arange(100), positive, counts)

    theirs = make_pipeline(StandardScaler(with_mean=not sparse), LogisticRegression(tol=1e-8, max_iter=10_000))
    weights = {f"{step}__sample_weight": counts[:100] for step, _ in theirs.steps}
    theirs.fit(vectors[:100], positive[:100], **weights)
    assert vectors @ slope + intercept == pytest.approx(theirs.decision_function(vectors), abs=1e-5)


def test_the_auc_of_resampled_rows_is_that_of_scikit_learn():
    rng = stream(0, "aucs")
    scores, positive = rng.integers(0, 12, 60) / 4, rng.random(60) < 0.4  # many equal scores
    photograph, weight = np.arange(60) // 2, rng.integers(1, 4, 60)
    times = rng.integers(0, 3, (5, 30))
    judged = _Judged.of(np.arange(60), scores, positive, photograph, weight)
    theirs = [roc_auc_score(positive, scores, sample_weight=each[photograph] * weight) for each in times]
    assert judged.aucs(times) == pytest.approx(theirs)
    assert np.isnan(judged.aucs(np.zeros((1, 30), dtype=int))).all()


def test_intervals_of_an_auc_have_chance_inside_where_nothing_is_planted():
    """Without the factor `WIDER` 84.5% of 200 such intervals of 200 rows had it inside, with it 97%."""
    inside = 0
    for seed in range(10):
        rng = stream(seed, "null")
        interval = predictable_auc(rng.normal(size=(200, 5)), np.arange(200) % 2 == 0, rng).estimate()
        inside += interval.lo <= 0.5 <= interval.hi
    assert inside >= 9


def test_a_photograph_with_both_groups_on_one_row_gives_nothing_away_and_has_no_interval():
    words = csr_array(np.repeat(np.eye(100), 2, axis=0))
    interval = predictable_auc(words, np.arange(200) % 2 == 0, stream(0, "folds"), np.arange(200) // 2).estimate()
    assert (interval.value, interval.lo) == (0.5, None)
    assert interval.why == "no interval: the resamples do not differ"


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
