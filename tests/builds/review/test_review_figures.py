"""Figures of a review: hand-computed, invariant where they must be, absent where nothing was measured."""

from __future__ import annotations

import doctest
import itertools
import time

import numpy as np
import pytest
from drawn import Ticking, mark_all, open_keeper, rows, write_build
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from fairgate.builds.review import (
    Session,
    agreement,
    draw_sample,
    figures_of,
    mark_statistics,
    read_records,
    review_section,
)
from fairgate.builds.review.agreement import (
    group_agreement,
    krippendorffs_alpha,
    raw_agreement,
    score_agreement,
)
from fairgate.builds.review.mark_statistics import Share, share
from fairgate.ground.errors import StatisticsError

# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units, gaps.
OBSERVERS = ["123321412...", "123322412" + "5.3", ".33323422" + "51.", "123324412" + "51."]
UNITS = [[answer for answer in unit if answer != "."] for unit in zip(*OBSERVERS, strict=True)]
quick = settings(max_examples=50, deadline=None)
answers = st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=12)


@pytest.mark.parametrize("module", [agreement, mark_statistics])
def test_the_examples_of_the_docstrings_are_true(module):
    found = doctest.testmod(__import__(f"fairgate.builds.review.{module.__name__.split('.')[-1]}", fromlist=["x"]))
    assert (found.failed, found.attempted > 0) == (0, True)


# Newcombe (1998), table I, method 3.
@pytest.mark.parametrize(
    ("count", "of", "lo", "hi"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_limits_are_those_of_the_literature(count, of, lo, hi):
    found = share(count, of)
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=5e-5)


@quick
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_limits_are_scipys_and_mirror_each_other(counted):
    found, other = share(*counted), share(counted[1] - counted[0], counted[1])
    theirs = binomtest(*counted).proportion_ci(method="wilson")
    assert (found.lo, found.hi) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert (found.lo, found.hi) == pytest.approx((1 - other.hi, 1 - other.lo), abs=1e-12)
    assert 0 <= found.lo <= found.value <= found.hi <= 1


def test_a_share_of_nothing_is_absent_and_an_impossible_one_is_refused():
    assert share(0, 0) == Share(0, 0, None, None, None)
    for bad in ((3, 2), (-1, 2)):
        with pytest.raises(StatisticsError):
            share(*bad)


def test_alpha_is_that_of_krippendorffs_example():
    assert krippendorffs_alpha(UNITS) == pytest.approx(0.743, abs=5e-4)


def test_raw_agreement_by_hand():
    assert raw_agreement(list(zip("aabbcca", "aabbcab", strict=True))) == pytest.approx(5 / 7)


def test_coefficients_are_absent_where_they_say_nothing():
    assert krippendorffs_alpha([["a", "a"]] * 5) is None
    assert krippendorffs_alpha([["a"], []]) is None
    assert raw_agreement([["a"]]) is None


@quick
@given(answers, st.randoms(use_true_random=False), st.permutations("abc"))
def test_the_order_of_raters_and_the_names_of_answers_do_not_matter(units, order, names):
    renamed = [[names["abc".index(answer)] for answer in unit] for unit in units]
    for unit in renamed:
        order.shuffle(unit)
    order.shuffle(renamed)
    assert krippendorffs_alpha(renamed) == pytest.approx(krippendorffs_alpha(units))
    assert raw_agreement(renamed) == pytest.approx(raw_agreement(units))


def test_who_did_not_answer_a_question_does_not_count_among_its_raters():
    two = {"ada": {1: "a", 2: "b", 3: "a"}, "bob": {1: "a", 2: "b", 3: "b"}}
    assert agreement.agreement(two | {"eve": {}}) == agreement.agreement(two)


def test_raters_who_answer_at_random_agree_by_chance():
    drawn = np.random.default_rng(0).integers(3, size=(4000, 2)).tolist()
    assert krippendorffs_alpha(drawn) == pytest.approx(0, abs=0.04)


def test_precision_recall_and_f1_by_hand():
    said, perceived = list("mmmwwwww"), list("mmwwwwmw")
    man, woman, other = group_agreement("perceived_gender", "gender", ["m", "w", "x"], said, perceived)
    assert (man.precision, man.recall, man.f1, man.support) == pytest.approx((2 / 3, 2 / 3, 2 / 3, 3))
    assert (woman.precision, woman.recall, woman.f1, woman.support) == pytest.approx((4 / 5, 4 / 5, 4 / 5, 5))
    assert (other.precision, other.recall, other.f1, other.support) == (None, None, None, 0)


@quick
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=20))
def test_auc_is_the_share_of_pairs_that_are_ranked_right(pairs):
    scores, good = zip(*pairs, strict=True)
    found = score_agreement("vqa_real", scores, good)
    above, below = [score for score, is_good in pairs if is_good], [score for score, is_good in pairs if not is_good]
    ranked = [(one > other) + 0.5 * (one == other) for one, other in itertools.product(above, below)]
    assert found.auc == (pytest.approx(np.mean(ranked)) if ranked else None)
    assert (found.good, found.other) == (len(above), len(below))


def test_a_score_that_is_no_number_was_not_measured():
    found = score_agreement("p", [float("nan"), 0.9, 0.2, float("inf")], [True, True, False, False])
    assert (found.good, found.other, found.auc) == (1, 1, 1)


def test_auc_of_few_good_images_among_many_takes_no_time():
    start = time.perf_counter()
    found = score_agreement("p", range(40_000), [score % 5_000 == 0 for score in range(40_000)])
    assert (found.good, found.auc) == (8, pytest.approx(0.4375))
    assert time.perf_counter() - start < 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_build(tmp_path_factory.mktemp("figures"), rows(24))


def figured(dataset, folder, sample):
    return figures_of(dataset, read_records(folder, dataset.manifest), sample)


def test_shares_count_what_was_said_per_subject_and_recorded_group(dataset, tmp_path):
    sample = draw_sample(dataset, 40)
    asked = sample.images[1].recorded["tone"]
    other = "dark" if asked == "light" else "light"
    wrong = {0: {"gender": None}, 1: {"tone": other}, 2: {"quality": "not_realistic"}, 3: {"quality": "off_prompt"}}
    mark_all(dataset, tmp_path, 40, wrong=wrong)
    found = figured(dataset, tmp_path, sample)
    everything = found.rows[0].shares
    counted = {name: one.count for name, one in everything.items() if one.count}
    assert counted == {
        "good": 36,
        "tone as recorded": 39,
        "another tone": 1,
        "gender as recorded": 39,
        "cannot discern gender": 1,
        "not realistic": 1,
        "not what was asked": 1,
    }
    assert (found.images, found.sets, found.changed, found.no_majority) == (40, 4, 0, 0)
    assert found.same_scene.value == 1
    by_name = {(row.kind, row.name): row.shares for row in found.rows}
    assert by_name["tone", asked]["another tone"].count == 1
    assert by_name["gender", sample.images[0].recorded["gender"]]["cannot discern gender"].count == 1
    assert by_name["subject", sample.images[2].subject]["not realistic"].count >= 1
    for kind in ("subject", "tone", "gender"):
        assert sum(row.shares["good"].of for row in found.rows if row.kind == kind) == 40
    assert sum(row.shares["good"].count for row in found.intersections) == 36
    assert next(row.name for row in found.intersections) == "light × man"


def test_the_card_tells_every_category_per_subject_group_and_intersection(dataset, tmp_path):
    sample = draw_sample(dataset, 96)
    item = sample.images[0]
    wrong = {0: {"gender": "man" if item.recorded["gender"] == "woman" else "woman", "quality": "unsure"}}
    mark_all(dataset, tmp_path, 96, wrong=wrong)
    found = figured(dataset, tmp_path, sample)
    text = review_section(dataset, read_records(tmp_path, dataset.manifest), found)
    lines = [line[1:-1].split("|") for line in text.splitlines() if line.count("|") == 14]
    cells = {line[0].strip(): [cell.strip() for cell in line] for line in lines}
    cross = " × ".join(item.recorded.values())
    for name, told in {
        item.subject: "2.1% (0.4 to 10.9)",
        f"gender: {item.recorded['gender']}": "2.1% (0.4 to 10.9)",
        f"tone × gender: {cross}": "4.2% (0.7 to 20.2)",
    }.items():
        for column in ("another gender", "unsure"):
            assert cells[name][cells[""].index(column)] == told


def test_filters_are_held_against_the_people(dataset, tmp_path):
    sample = mark_all(dataset, tmp_path, 96, wrong={0: {"quality": "not_realistic"}})
    found = figured(dataset, tmp_path, sample)
    man, woman = found.groups
    # Every third set's women are called men: 16 of 48 women.
    assert (man.column, man.support, woman.support) == ("perceived_gender", 48, 48)
    assert (man.precision, man.recall) == pytest.approx((48 / 64, 1))
    assert (woman.precision, woman.recall, woman.f1) == pytest.approx((1, 32 / 48, 0.8))
    scores = {one.column: one for one in found.scores}
    assert scores["p_gender"].auc == 0.5
    assert (scores["vqa_real"].good, scores["vqa_real"].other) == (95, 1)
    assert scores["clip_caption"].good + scores["clip_caption"].other == 92  # one set was not measured


def test_a_column_that_is_no_filters_is_not_held_against_the_people(tmp_path):
    dataset = write_build(tmp_path, [row | {"original_gender": row["gender"]} for row in rows(4)])
    found = figured(dataset, tmp_path / "r", mark_all(dataset, tmp_path / "r", 16))
    assert {one.column for one in found.groups} == {"perceived_gender"}


def test_without_filter_columns_there_is_nothing_to_compare(tmp_path):
    plain = [{name: value for name, value in row.items() if "_" not in name or name == "set_id"} for row in rows(4)]
    dataset = write_build(tmp_path, plain)
    found = figured(dataset, tmp_path / "r", mark_all(dataset, tmp_path / "r", 8))
    assert (found.groups, found.scores) == ((), ())


def test_two_raters_are_one_opinion_where_they_agree_and_none_where_they_do_not(dataset, tmp_path):
    mark_all(dataset, tmp_path, 20, "ada", {0: {"gender": None}, 1: {"quality": "unsure"}})
    sample = mark_all(dataset, tmp_path, 30, "grace", {0: {"gender": None}})
    found = figured(dataset, tmp_path, sample)
    everything = found.rows[0].shares
    assert (found.images, found.no_majority) == (30, 1)
    assert (everything["good"].count, everything["cannot discern gender"].count, everything["unsure"].count) == (
        28,
        1,
        0,
    )
    agreed = found.agreement["what is wrong"]
    assert (agreed.units, agreed.raw) == (20, pytest.approx(0.95))
    assert found.agreement["gender perceived"].alpha == 1
    assert found.agreement["same scene"].alpha is None
    assert found.agreement["same scene"].raw == 1


def answer_again(dataset, folder, sample, answer, *, withdrawn=False):
    """The rater ada says this of the ninth image, whose prompt was shown."""
    clock = Ticking()
    with open_keeper(dataset, folder, sample, clock=clock) as keeper:
        session = Session(dataset, sample, keeper, clock)
        while withdrawn and session.overview()["items"][8]["perceived"]:
            session.undo()
        session.mark(8, "perceived", answer)
        session.mark(8, "quality", "good")


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_was_changed_after_the_prompt_counts_as_it_was_said_before(dataset, tmp_path, withdrawn):
    sample = draw_sample(dataset, 9)
    asked = sample.images[8].recorded
    other = {"gender": "man" if asked["gender"] == "woman" else "woman"}
    mark_all(dataset, tmp_path, 9, "ada", {8: other})
    mark_all(dataset, tmp_path, 9, "grace", {8: other})
    before = figured(dataset, tmp_path, sample)
    assert before.rows[0].shares["another gender"].count == 1
    answer_again(dataset, tmp_path, sample, asked, withdrawn=withdrawn)
    found = figured(dataset, tmp_path, sample)
    assert found.rows == before.rows
    assert found.agreement == before.agreement
    assert (found.groups, found.scores) == (before.groups, before.scores)
    assert (before.changed, found.changed) == (0, 1)


def test_the_same_answer_again_changes_nothing(dataset, tmp_path):
    sample = mark_all(dataset, tmp_path, 10)
    before = figured(dataset, tmp_path, sample)
    answer_again(dataset, tmp_path, sample, sample.images[8].recorded)
    assert figured(dataset, tmp_path, sample) == before
    assert sum(one.support for one in before.groups) == 10


def test_where_there_are_no_sets_nobody_is_told_of_any(tmp_path):
    single = [row | {"set_id": f"{row['set_id']}-{row['member']}"} for row in rows(6)]
    dataset = write_build(tmp_path, single, counterfactual=False)
    for rater in ("ada", "grace"):
        sample = mark_all(dataset, tmp_path / "r", 20, rater)
    text = review_section(
        dataset, read_records(tmp_path / "r", dataset.manifest), figured(dataset, tmp_path / "r", sample)
    )
    told, _, rest = text.partition("### Instructions for raters")
    assert "4 of 24 images were judged by nobody on their own. What filters" in rest
    assert not any(word in told for word in ("sets", "whole set", "same scene"))


def test_nothing_marked_gives_no_figure(dataset, tmp_path):
    found = figured(dataset, tmp_path, draw_sample(dataset, 10))
    assert found.images == 0
    assert {one.value for one in found.rows[0].shares.values()} == {None}
    assert (found.agreement, found.groups, found.same_scene.value) == ({}, (), None)
