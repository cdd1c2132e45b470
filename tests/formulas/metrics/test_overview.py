"""The overview: one pass gives what the single functions give, and a stream of blocks what the whole gallery gives."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairgate.formulas.metrics import (
    RetrievalOverview,
    bias_at_k,
    c_asc,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    normalized_entropy_at_k,
    retrieval_overview,
    skew_at_k,
    streamed_overview,
    tie_at_k,
)
from fairgate.ground.errors import MetricError

GROUPS = 3


@st.composite
def galleries(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores full of ties, labels with undefined ones, every group present, no query constant; and a k that fits."""
    images = draw(st.integers(GROUPS, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.permutation(np.r_[np.arange(GROUPS), rng.integers(draw(st.sampled_from([-1, 0])), GROUPS, images)])
    scores = rng.integers(0, draw(st.sampled_from([3, 1000])), (4, labels.size)) / 8.0
    defined = np.flatnonzero(labels >= 0)
    scores[:, defined[0]] = scores[:, defined[1]] + 1
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    return scores.astype(dtype), labels, draw(st.integers(1, defined.size))


def assert_equal(found: RetrievalOverview, wanted: RetrievalOverview) -> None:
    for field in fields(RetrievalOverview):
        np.testing.assert_allclose(getattr(found, field.name), getattr(wanted, field.name), atol=1e-12, rtol=1e-12)


def blocks(scores: np.ndarray, labels: np.ndarray, *cuts: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The gallery cut before the images named."""
    edges = [0, *sorted(cuts), labels.size]
    for start, stop in pairwise(edges):
        yield scores[:, start:stop], labels[start:stop]


def by_single_functions(scores: np.ndarray, labels: np.ndarray, k: int, desired: str, pair: tuple[int, int]):
    given_ = {"groups": GROUPS}
    return RetrievalOverview(
        skew=skew_at_k(scores, labels, k, desired=desired, **given_),
        max_skew=max_skew_at_k(scores, labels, k, desired=desired, **given_),
        min_skew=min_skew_at_k(scores, labels, k, desired=desired, **given_),
        ndkl=ndkl_at_k(scores, labels, k, desired=desired, **given_),
        bias=bias_at_k(scores, labels, k, first=pair[0], second=pair[1], **given_),
        entropy=normalized_entropy_at_k(scores, labels, k, **given_),
        tie_at_k=tie_at_k(scores, labels, k, **given_),
        c_asc=c_asc(scores, labels, **given_),
    )


@settings(max_examples=50, deadline=None)
@given(gallery=galleries(), desired=st.sampled_from(["dataset", "uniform"]), pair=st.sampled_from([(0, 1), (2, 0)]))
def test_the_overview_is_what_the_single_functions_say(gallery, desired, pair):
    found = retrieval_overview(*gallery, groups=GROUPS, desired=desired, first=pair[0], second=pair[1])
    assert_equal(found, by_single_functions(*gallery, desired, pair))


@settings(max_examples=50, deadline=None)
@given(gallery=galleries(), places=st.lists(st.floats(0, 1), max_size=6), pair=st.sampled_from([(0, 1), (2, 0)]))
def test_a_stream_of_blocks_is_the_gallery_wherever_it_is_cut(gallery, places, pair):
    scores, labels, k = gallery
    cuts = [round(place * labels.size) for place in places]  # equal cuts make empty blocks
    streamed = streamed_overview(blocks(scores, labels, *cuts), k, groups=GROUPS, first=pair[0], second=pair[1])
    assert_equal(streamed, retrieval_overview(scores, labels, k, groups=GROUPS, first=pair[0], second=pair[1]))


def test_desired_defaults_to_the_gallery_and_the_bias_to_the_first_two_groups():
    scores, labels = np.array([[4.0, 3.0, 2.0, 1.0, 0.0]]), np.array([0, 1, 0, 0, 2])
    for found in (
        retrieval_overview(scores, labels, 3, groups=3),
        streamed_overview(blocks(scores, labels, 2), 3, groups=3),
    ):
        np.testing.assert_allclose(found.skew, [[np.log(2 / 3 / 0.6), np.log(1 / 3 / 0.2), -np.inf]])
        np.testing.assert_allclose(found.bias, [1 / 3])
    uniform = streamed_overview(blocks(scores, labels, 2), 3, groups=3, desired="uniform")
    np.testing.assert_allclose(uniform.max_skew, [np.log(2)])


def test_undefined_images_take_places_for_the_bias_alone_from_the_block_where_they_first_appear():
    scores = np.array([[6.0, 5.0, 4.0, 9.0, 8.0, 1.0]])
    labels = np.array([0, 0, 1, -1, 1, -1])
    for cuts in ((), (3,), (4,), (3, 5), (1, 2, 3, 4, 5)):
        found = streamed_overview(blocks(scores, labels, *cuts), 3, groups=2)
        np.testing.assert_allclose(found.bias, [0.0])  # of -1, 1, 0
        np.testing.assert_allclose(found.entropy, normalized_entropy_at_k(scores, labels, 3, groups=2))  # of 1, 0, 0


def test_a_tie_at_the_cut_is_seen_across_blocks_and_the_earlier_image_stays_ahead():
    scores, labels = np.array([[1.0, 5.0, 5.0, 5.0, 0.0]]), np.array([0, 0, 1, 1, 1])
    for cuts in ((), (2,), (3,), (2, 3)):
        found = streamed_overview(blocks(scores, labels, *cuts), 2, groups=2)
        assert found.tie_at_k.tolist() == [True]
        np.testing.assert_allclose(found.bias, [0.0])
        assert streamed_overview(blocks(scores, labels, *cuts), 3, groups=2).tie_at_k.tolist() == [False]
    assert retrieval_overview(scores, labels, 5, groups=2).tie_at_k.tolist() == [False]


def test_a_group_may_be_missing_from_any_block():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(25.0, 0.01, (2, 30)), np.repeat([2, 0, 1], 10)
    streamed = streamed_overview(blocks(scores, labels, 10, 20), 7, groups=3)
    np.testing.assert_allclose(streamed.c_asc, c_asc(scores, labels, groups=3), rtol=1e-9)


def test_no_block_is_kept_once_the_next_has_been_taken_in():
    made: list[weakref.ref[np.ndarray]] = []

    def one_after_another() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number in range(5):
            block = np.array([[1.0, 0.0, 2.0]]) * number
            made.append(weakref.ref(block))
            assert [ref() is not None for ref in made[:-2]] == [False] * (len(made) - 2)
            yield block, np.array([0, 1, -1])
            del block

    assert streamed_overview(one_after_another(), 4, groups=2).bias.tolist() == [1.0]  # of -1, -1, -1, 0
    assert len(made) == 5


@pytest.mark.parametrize("undefined", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_refused_with_its_block_and_place(bad, undefined):
    scores, labels = np.arange(12.0).reshape(2, 6), np.array([0, 1, 0, 1, 0, -1 if undefined else 1])
    scores[1, 5] = bad
    with pytest.raises(MetricError, match=r"scores: first at queries 1, images 5") as caught:
        retrieval_overview(scores, labels, 2, groups=2)
    assert "1 of 12 scores are not finite" in str(caught.value)
    with pytest.raises(MetricError, match="scores of block 1: first at queries 1, images 2") as caught:
        streamed_overview(blocks(scores, labels, 3), 2, groups=2)
    assert "1 of 6 scores of block 1 are not finite" in str(caught.value)


def test_scores_whose_squares_overflow_are_refused_for_their_size_not_called_infinite():
    scores = np.array([[1.0, 0.0, 2.0], [1e200, -1e200, 0.0]])
    with pytest.raises(MetricError, match="squares overflow") as caught:
        retrieval_overview(scores, np.array([0, 1, 0]), 1, groups=2)
    assert "query 1" in str(caught.value)
    assert "do not depend" in str(caught.value) or "does not depend" in str(caught.value)


def test_a_query_with_one_score_for_all_is_refused_also_when_every_block_repeats_it():
    scores = np.array([[0.5, 0.1, 0.2, 0.3], [0.1, 0.1, 0.1, 0.1]])
    labels = np.array([0, 1, 0, 1])
    for cuts in ((), (1,), (2,)):
        with pytest.raises(MetricError, match="query 1"):
            streamed_overview(blocks(scores, labels, *cuts), 2, groups=2)
    scores[1, 3] = np.nextafter(0.1, 1)
    assert np.isfinite(streamed_overview(blocks(scores, labels, 2), 2, groups=2).c_asc).all()


@pytest.mark.parametrize(
    ("change", "message", "remedy"),
    [
        ({"k": 0}, "k is 0, but 4 images", "between 1 and 4"),
        ({"k": -3}, "k is -3, but 4 images", "between 1 and 4"),
        ({"k": 5}, "k is 5, but 4 images", "between 1 and 4"),
        ({"groups": 1}, "1 group is declared", "declare every group"),
        ({"groups": 3}, "1 of 3 declared groups have no image", "add images"),
        ({"first": 1}, "bias compares group 1 with group 1", "two different groups"),
        ({"second": 2}, "bias compares group 0 with group 2", "between 0 and 1"),
        ({"desired": "equal"}, "desired is 'equal'", "'dataset', 'uniform'"),
        ({"labels": [0, 1, 0, 2]}, "code 2, outside -1..1", "correct the codes"),
        ({"labels": [-1, -1, -1, -1]}, "but 0 images can be ranked", "no image has a defined group"),
        ({"labels": [0, 1]}, r"shape \(2,\), but there are 4 images", "one code per image"),
        ({"scores": [1.0, 2.0]}, r"shape \(2,\)", "queries, images"),
    ],
)
def test_what_no_single_function_answers_the_overview_refuses(change, message, remedy):
    given_ = {"scores": [[0.4, 0.3, 0.2, 0.1]], "labels": [0, 1, 0, 1], "k": 2, "groups": 2} | change
    with pytest.raises(MetricError, match=message) as caught:
        retrieval_overview(np.array(given_.pop("scores")), np.array(given_.pop("labels")), **given_)
    assert remedy in str(caught.value)


def test_a_stream_without_images_and_blocks_that_do_not_fit_are_refused():
    for nothing in ([], [(np.empty((2, 0)), np.empty(0, dtype=int))]):
        with pytest.raises(MetricError, match="0 images can be ranked"):
            streamed_overview(nothing, 2, groups=2)
    two, three = (np.ones((2, 1)), np.array([0])), (np.ones((3, 1)), np.array([1]))
    with pytest.raises(MetricError, match="scores of block 1 hold 3 queries, those before it 2") as caught:
        streamed_overview([two, three], 1, groups=2)
    assert "the same queries" in str(caught.value)
    with pytest.raises(MetricError, match="labels of block 0 has shape"):
        streamed_overview([(np.ones((2, 2)), np.empty(0, dtype=int))], 1, groups=2)
