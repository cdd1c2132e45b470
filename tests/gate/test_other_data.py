"""What a reviewer is shown of a change's data, next to the verdict; and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from example_records import example_record

from fairgate.gate.baselines import dataset_notices, require_nothing_vanished, require_same_declaration
from fairgate.ground.errors import BaselineError
from fairgate.records import DatasetInfo

RECORD = example_record()
THEN = frozenset(f"set-{number}" for number in range(720))


def data(**changes: Any) -> DatasetInfo:
    return RECORD.dataset.model_copy(update=changes)


def test_a_smaller_release_is_counted() -> None:
    now = frozenset(sorted(THEN)[20:])
    (said,) = dataset_notices(RECORD, data(fingerprint="e" * 64, version="v2"), 5600, now, THEN, "baseline")
    assert "this change is judged on occupations/v2 (eeeeeeeeeeee, 700 sets, 5,600 images)" in said
    assert (
        f"the baseline was made on occupations/v1 ({RECORD.dataset.fingerprint[:12]}, 720 sets, 5,760 images)" in said
    )
    assert "20 of its 720 sets are gone." in said


def test_sets_that_were_exchanged_are_counted_though_their_number_is_the_same() -> None:
    now = frozenset(f"set-{number}" for number in range(9, 729))
    (said,) = dataset_notices(RECORD, data(fingerprint="e" * 64), 5760, now, THEN, "anchor")
    assert "the anchor was made on" in said
    assert "9 of its 720 sets are gone, 9 sets are new." in said


def test_a_single_set_is_counted_in_the_singular() -> None:
    now = frozenset(f"set-{number}" for number in range(1, 721))
    (said,) = dataset_notices(RECORD, data(fingerprint="e" * 64), 5760, now, THEN, "baseline")
    assert "1 of its 720 sets is gone, 1 set is new." in said


def test_other_groups_and_other_kinds_of_sets_are_named() -> None:
    attributes = {"age": ["young", "old"]} | {
        name: [*groups, "other"] if name == "gender" else groups for name, groups in RECORD.dataset.attributes.items()
    }
    other = data(fingerprint="e" * 64, attributes=attributes, counterfactual=False)
    (said,) = dataset_notices(RECORD, other, 5760, THEN, THEN, "baseline")
    assert "the sets have the same names, and other images or labels" in said
    assert "other images or labels, declared otherwise: " in said
    assert "; age: young, old (was: -); counterfactual: False (was: True). The baseline's" in said


@pytest.mark.parametrize("attribute", ["gender", "age"])
def test_the_same_content_with_other_declarations_is_refused(attribute: str) -> None:
    require_same_declaration(RECORD, data(), "here")
    other = data(attributes=RECORD.dataset.attributes | {attribute: ["young", "old"]})
    with pytest.raises(BaselineError, match=rf"declares otherwise: {attribute}: young, old \(was: "):
        require_same_declaration(RECORD, other, "here")
    require_same_declaration(RECORD, other.model_copy(update={"fingerprint": "e" * 64}), "here")
    with pytest.raises(BaselineError, match=r"counterfactual: False \(was: True\)"):
        require_same_declaration(RECORD, data(counterfactual=False), "here")


def test_a_group_that_only_looks_the_same_is_named_in_code_points() -> None:
    groups = {
        name: [one.replace("dark", "d\u0430rk") for one in all_] for name, all_ in RECORD.dataset.attributes.items()
    }
    other = data(attributes=groups)
    subjects = list(dict.fromkeys(check.subject for check in RECORD.checks if check.subject))
    with pytest.raises(BaselineError, match=r"which only looks like 'dark': letter 2 is U\+0061 LATIN") as caught:
        require_nothing_vanished(RECORD, other, subjects, "here")
    assert "CYRILLIC SMALL LETTER A in the other" in caught.value.problem
