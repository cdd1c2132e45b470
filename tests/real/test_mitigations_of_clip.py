"""Sixteen mitigations of CLIP on VisoGender, each against the plain model: what raises every group does not fail, and
what takes accuracy from a group fails and names it."""

from __future__ import annotations

import pytest
from outputs import OUTPUTS

from benchmarks.mitigations import BASE, changes, judged, repository
from fairgate.records import RunRecord

VISOGENDER = OUTPUTS / "visogender"
MARGIN, LARGE = 0.05, 0.15

pytestmark = [
    pytest.mark.skipif(not VISOGENDER.is_dir(), reason="the published scores are not next to this checkout"),
    pytest.mark.nightly,
    pytest.mark.xdist_group("mitigations"),
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    """The record of every mitigation."""
    root = tmp_path_factory.mktemp("mitigations")
    return {name: judged(root, name) for name in repository(root, VISOGENDER, MARGIN) if name != BASE}


def rises(record: RunRecord) -> dict[str, float]:
    return {group: now - before for group, (before, now) in changes(record).items()}


def failing(record: RunRecord) -> set[str]:
    regressions = [check for check in record.checks if check.rule == "no_worse_than"]
    return {group.group for check in regressions for group in check.failing_groups}


def test_a_mitigation_that_raises_every_group_does_not_fail(records: dict[str, RunRecord]) -> None:
    raising = {name for name, record in records.items() if min(rises(record).values()) > 0}
    assert raising == {"dos_text_frozen", "dos_none_frozen"}
    assert {records[name].verdict for name in raising} == {"pass"}


def test_a_mitigation_that_takes_accuracy_from_a_group_fails_and_names_it(records: dict[str, RunRecord]) -> None:
    taking = {name: {g for g, rise in rises(record).items() if rise < -LARGE} for name, record in records.items()}
    assert sum(map(bool, taking.values())) == 8
    for name, groups in taking.items():
        assert failing(records[name]) == groups, name
        assert (records[name].verdict == "fail") == bool(groups), name


def test_a_loss_near_the_margin_is_inconclusive_with_the_images_that_would_settle_it(
    records: dict[str, RunRecord],
) -> None:
    """Women lost 0.038 to 0.064 in 345 pictures, while men gained: the gap closed, which is no loss."""
    unclear = {name for name, record in records.items() if record.verdict == "inconclusive"}
    assert unclear == {"cda_vision_frozen", "cda_text_frozen", "cda_none_frozen"}
    for name in unclear:
        checks = {check.id: check for check in records[name].checks}
        assert checks["no-gender-falls-behind"].verdict == "pass"
        assert (checks["no-group-loses"].sets_needed or 0) > 345
