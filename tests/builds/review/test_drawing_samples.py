"""Samples: the same for all, subjects and groups alike, a smaller one inside every larger one."""

from __future__ import annotations

from collections import Counter

import pytest
from drawn import rows, write_build

from fairgate.builds.review import draw_sample
from fairgate.builds.review.sample import SCENE_EVERY, ImageItem


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_build(tmp_path_factory.mktemp("sample"), rows(30))


@pytest.mark.parametrize("size", [1, 7, 8, 20, 64, 119])
def test_no_cell_has_two_images_more_than_another(dataset, size):
    images = draw_sample(dataset, size).images
    cells = Counter((image.subject, *image.recorded.values()) for image in images)
    assert len(images) == sum(cells.values()) == size
    assert max(cells.values()) - (min(cells.values()) if len(cells) == 8 else 0) <= 1
    subjects = Counter(image.subject for image in images)
    assert max(subjects.values()) - (min(subjects.values()) if len(subjects) == 2 else 0) <= 1


def test_two_raters_see_the_same_in_the_same_order(dataset):
    assert draw_sample(dataset, 50) == draw_sample(dataset, 50)


def test_a_smaller_sample_is_part_of_a_larger_one(dataset):
    small, large = draw_sample(dataset, 37), draw_sample(dataset, 80)
    assert {image.row for image in small.images} < {image.row for image in large.images}
    assert [one.set_id for one in small.sets] == [one.set_id for one in large.sets][:3]
    assert small.sets == large.sets[:3]


def test_what_is_drawn_hangs_on_the_content(dataset, tmp_path):
    other = write_build(tmp_path, rows(30, caption="another"))
    assert [image.row for image in draw_sample(dataset, 40).images] != [
        image.row for image in draw_sample(other, 40).images
    ]


def test_a_sample_of_more_than_everything_is_everything_once(dataset):
    sample = draw_sample(dataset, 10_000)
    assert sorted(image.row for image in sample.images) == list(range(120))
    for image in sample.images:
        assert dataset.index.set_id[image.row] == image.set_id
        assert dataset.index.member[image.row] == image.member


def test_images_come_from_different_sets_while_there_are_any(dataset):
    assert len({image.set_id for image in draw_sample(dataset, 24).images}) == 24


def test_a_group_cannot_be_told_from_its_turn(dataset):
    """Rounds are shuffled: the first of each round is not always of one cell."""
    images = draw_sample(dataset, 120).images
    assert len({(images[place].subject, *images[place].recorded.values()) for place in range(0, 120, 8)}) > 3


def test_every_tenth_image_is_followed_by_a_whole_set_in_mixed_order(dataset):
    sample = draw_sample(dataset, 100)
    places = [number for number, item in enumerate(sample.items) if not isinstance(item, ImageItem)]
    assert places == [SCENE_EVERY * count + count - 1 for count in range(1, 11)]
    assert {dataset.index.subject[one.rows[0]] for one in sample.sets[:2]} == {"doctor", "nurse"}
    assert len({tuple(dataset.index.member[row] for row in one.rows) for one in sample.sets}) > 3
    for one in sample.sets:
        assert {dataset.index.set_id[row] for row in one.rows} == {one.set_id}
        assert len(set(one.rows)) == 4


def test_sets_that_are_not_counterfactual_are_not_shown_whole(tmp_path):
    single = [row | {"set_id": f"{row['set_id']}-{row['member']}"} for row in rows(6)]
    dataset = write_build(tmp_path, single, counterfactual=False)
    assert draw_sample(dataset, 24).sets == []
    assert len(draw_sample(dataset, 24).images) == 24


def test_groups_that_are_absent_are_passed_over(tmp_path):
    few = [row | {"set_id": f"{row['set_id']}-{row['member']}"} for row in rows(6) if row["tone"] == "dark"]
    images = draw_sample(write_build(tmp_path, few, counterfactual=False), 9).images
    assert Counter(image.recorded["gender"] for image in images).most_common(1)[0][1] == 5
