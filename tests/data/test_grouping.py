"""Grouping: numbers into bins, values under one name, and which groups a suite would judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairgate.data import MIN_SETS, Bins, ColumnGrouping, group_sizes, open_dataset
from fairgate.data.labels import natural
from fairgate.ground.errors import DatasetError
from fairgate.suites.schema import Groups


@pytest.mark.parametrize(
    ("written", "value", "group"),
    [
        ("0-19,20-39,40-59,60-", "19", "0-19"),
        ("0-19,20-39,40-59,60-", "20", "20-39"),
        ("0-19,20-39,40-59,60-", "60", "60-"),
        ("0-19,20-39,40-59,60-", "116", "60-"),
        ("0-<10,10-<20", "10", "10-<20"),
        ("0-<10,10-<20", "9.99", "0-<10"),
        ("0-10,>10-20", "10", "0-10"),
        ("0-10,>10-20", "10.5", ">10-20"),
        ("<20,20-69,70+", "19.5", "<20"),
        ("<=20,>20", "20", "<=20"),
        ("-5-5,>=6", "-5", "-5-5"),
        ("0.5-1.5,2-", "1e0", "0.5-1.5"),
        ("0-19,20-,unknown", "unknown", "unknown"),
    ],
)
def test_a_number_is_in_the_bin_whose_bounds_hold_it(written, value, group):
    assert Bins.parse(written).group_of(value) == group


@given(st.integers(0, 200))
def test_bins_of_whole_years_hold_every_year_once(age):
    bins = Bins.parse("0-2,3-9,10-19,20-29,30-")
    low, _, high = bins.group_of(str(age)).partition("-")
    assert int(low) <= age <= int(high or age)


@pytest.mark.parametrize("value", ["19.5", "-1", "34,5", "n/a", "nan", "inf", ""])
def test_what_is_in_no_bin_is_refused_with_the_bins(value):
    with pytest.raises(DatasetError, match=r"the bins are 0-19, 20-39") as caught:
        Bins.parse("0-19,20-39").group_of(value)
    assert ("decimals with a point" if "," in value else "unknown") in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("0-20,20-40", "overlap"),
        ("20-39,0-19", "ascending"),
        ("0-19,10-", "overlap"),
        ("0-,20-", "overlap"),
        ("19-0", "holds no number"),
        (">5-5", "holds no number"),
        ("young,old", "no different bins"),
        ("0-19,0-19", "no different bins"),
        ("0-19,", "no different bins"),
        ("", "no different bins"),
    ],
)
def test_bins_that_overlap_go_down_or_hold_nothing_are_refused(written, problem):
    with pytest.raises(DatasetError, match=problem):
        Bins.parse(written)


def test_merged_values_have_one_name_in_natural_order_and_what_was_done_is_recorded():
    grouping = ColumnGrouping.parse(["age=0-19,20-"], ["race=Latino_Hispanic, Middle Eastern=other", "age=0-19=minor"])
    assert grouping.group_of("race", "Middle Eastern") == "other"
    assert grouping.group_of("race", "White") == "White"
    assert grouping.group_of("age", "7") == "minor"
    assert grouping.groups("race", ["White", "Middle Eastern", "Latino_Hispanic"]) == ["White", "other"]
    assert grouping.groups("age", ["30", "3"]) == ["minor", "20-"]
    assert grouping.recorded() == {
        "bins": {"age": ["0-19", "20-"]},
        "merged": {"race": {"Latino_Hispanic": "other", "Middle Eastern": "other"}, "age": {"0-19": "minor"}},
    }


def test_a_merged_name_that_no_line_has_is_refused_with_the_nearest():
    grouping = ColumnGrouping.parse([], ["race=Latino=other"])
    with pytest.raises(DatasetError, match="no value 'Latino' to merge") as caught:
        grouping.groups("race", ["White", "Latino_Hispanic"])
    assert "did you mean 'Latino_Hispanic'?" in caught.value.remedy


@pytest.mark.parametrize(
    ("bins", "merge"),
    [
        (["age"], []),
        (["=0-"], []),
        (["age=0-", "age=1-"], []),
        ([], ["race=White"]),
        ([], ["race=White=", "x"]),
        ([], ["race=,=other"]),
        ([], ["race=White=a", "race=White=b"]),
    ],
)
def test_an_option_that_cannot_be_read_is_quoted(bins, merge):
    with pytest.raises(DatasetError, match="cannot be read") as caught:
        ColumnGrouping.parse(bins, merge)
    assert caught.value.where in {"--bin", "--merge"}


def test_a_set_counts_once_in_every_group_that_it_has_a_member_of(root):
    sizes = {(size.over, size.group): size for size in group_sizes(open_dataset("people", root).index)}
    assert sizes["tone", "dark"].sets == 6  # of 12 rows
    assert sizes["tone × gender", "dark × woman"].sets == 6
    assert (sizes["tone", "dark"].subject, sizes["tone", "dark"].fewest) == ("doctor", 3)
    assert sizes["tone", "dark"].judged(6)
    assert not sizes["tone", "dark"].judged()
    assert len(sizes) == 2 + 2 + 4


def test_a_crossing_without_a_set_is_counted_as_zero(write, rows, tmp_path):
    write(rows=(row for row in rows() if (row["tone"], row["gender"]) != ("dark", "man")), counterfactual=False)
    sizes = {size.group: size.sets for size in group_sizes(open_dataset("people", tmp_path / "datasets").index)}
    assert sizes["dark × man"] == 0


def test_the_preview_judges_by_the_min_sets_of_a_suite_that_names_none():
    assert Groups().min_sets == MIN_SETS


def test_groups_are_sorted_by_their_numbers_however_many_digits_they_have() -> None:
    enormous = "9" * 5000  # more than Python reads
    assert sorted(["10-19", "x", "3-9"], key=natural) == ["3-9", "10-19", "x"]
    assert sorted(["x", enormous], key=natural) == [enormous, "x"]
