from __future__ import annotations

import pytest
from past import a_run

from fairgate.records import BaselineInfo, PastRun, same_architecture
from fairgate.reports import history_html, terminal_lines
from fairgate.tracking import content, suite_history

VIT_B, VIT_L = 151_277_313, 427_616_513


def shown(*runs: PastRun) -> list[int | None]:
    return [run.height for run in suite_history("jobs", runs).runs]


def test_a_trial_of_another_architecture_adds_no_point_and_the_history_names_it() -> None:
    runs = [a_run(number, weights=VIT_B) for number in (1, 2, 4)]
    trial = a_run(3, 0.2, weights=VIT_L, other_architecture=True)
    history = suite_history("jobs", [*runs[:2], trial, runs[2]])
    assert [run.height for run in history.runs] == [1, 2, 4]
    assert history.series[0].moves == ()
    words = "of another architecture (number of weights): 0000003"
    assert any(words in line for line in terminal_lines(history))
    assert words in history_html(history)


def test_the_newest_run_is_no_trial_once_its_baseline_is_of_its_architecture() -> None:
    before, trial = a_run(1, weights=VIT_B), a_run(2, weights=VIT_L, other_architecture=True)
    assert shown(before, trial) == [1]
    assert shown(before, trial, a_run(3, weights=VIT_L)) == [2, 3]
    assert shown(trial) == [2]


def test_a_run_of_unknown_size_stays_in_the_history() -> None:
    assert shown(a_run(1), a_run(2, weights=VIT_B), a_run(3)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("others", "same"), [(None, True), (VIT_B + 40_000, True), (149_620_737, False), (VIT_L, False)]
)
def test_architectures_differ_where_their_sizes_do_by_more_than_new_labels_or_tokens(
    others: int | None, same: bool
) -> None:
    assert same_architecture(VIT_B, others) is same
    assert same_architecture(others, VIT_B) is same


@pytest.mark.parametrize(("weights", "status"), [(VIT_L, "FAILED"), (VIT_B, "FINISHED"), (None, "FAILED")])
def test_a_trial_of_another_architecture_gets_no_red_cross_in_mlflow(weights: int | None, status: str) -> None:
    from tracking_records import a_record

    record = a_record(verdict="fail")
    saved = BaselineInfo(source="git:main", uri="hf:old", fingerprint="b" * 64, weights=weights)
    model = record.model.model_copy(update={"weights": VIT_L})
    record = record.model_copy(update={"model": model, "baseline": saved})
    assert content.status(record) == status
    assert (content.tags(record).get(content.OTHER_ARCHITECTURE) == "true") == (status == "FINISHED")
