"""What a table of answers calls right is taken over into a first suite, in as few words as there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from fairgate.suites.targets import options_of, right_of, tally_of, written

DATASET: Any = SimpleNamespace(subjects=["person"], attributes={"job": ["doctor", "nurse"], "age": ["old", "young"]})
INDEX: Any = SimpleNamespace(
    subject=np.array(["person"] * 4),
    set_id=np.array(["a: 1", "b", "c-1", "d"]),
    attributes={"job": np.array(["doctor", "nurse"] * 2), "age": np.array(["old", "old", "young", "young"])},
)
SETS = {"a: 1": "yes", "b": "no", "c-1": "no", "d": "abstain"}


@pytest.mark.parametrize(
    ("targets", "right"),
    [
        (["Yes", "yes", "Yes.", "YES"], "yes"),
        (["Yes", "No", "Yes", "No"], {"job": {"doctor": "yes", "nurse": "no"}}),
        (["Yes", "No", "No", "It cannot be determined."], {"set_id": SETS}),
        (["Yes", "No", "perhaps blue", "No"], None),
        (["Yes", "No", "Yes"], None),
    ],
)
def test_targets_are_what_is_right_in_the_fewest_words(targets: list[str], right: object) -> None:
    taken = right_of(dict(enumerate(targets)), ["yes", "no"], DATASET, INDEX)
    assert (yaml.safe_load(written(taken)) if taken else None) == right


def test_images_of_one_set_with_several_targets_have_nothing_right() -> None:
    paired: Any = SimpleNamespace(subject=INDEX.subject, set_id=np.array(list("aabb")), attributes=INDEX.attributes)
    assert right_of(dict(enumerate(["Yes", "No", "No", "No"])), ["yes", "no"], DATASET, paired) is None


def test_of_too_many_sets_nothing_is_listed() -> None:
    targets = dict(enumerate(["Yes", "No", "No", "No"]))
    assert right_of(targets, ["yes", "no"], DATASET, INDEX, 4) is not None
    assert right_of(targets, ["yes", "no"], DATASET, INDEX, 3) is None


def test_a_long_list_is_read_back_from_its_lines() -> None:
    by_value = {f"photo {n}.a-b": "yes" for n in range(300)}
    text = written(("set_id", by_value))
    assert yaml.safe_load(text) == {"set_id": by_value}
    assert max(map(len, text.splitlines())) <= 120


def test_options_are_the_targets_if_answers_can_be_read_as_them() -> None:
    sentences = [f"I think it is a {job}, person {n}." for n in range(30) for job in ("doctor", "nurse")]
    assert options_of(sentences, ["Doctor", "Nurse"]) == ["doctor", "nurse"]
    assert options_of(["blue", "red"], ["Doctor", "Nurse"]) == ["blue", "red"]


def test_a_list_set_by_set_is_counted_and_nothing_else_is() -> None:
    assert tally_of(("set_id", SETS)) == ': of 4 sets, "no" for 2, "yes" for 1, abstain for 1'
    assert tally_of(("job", {"doctor": "yes", "nurse": "no"})) == ""
    assert tally_of("yes") == ""
    assert tally_of(None) == ""
