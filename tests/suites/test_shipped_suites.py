"""The suites that ship find what was planted in the embedded checkpoints, where it was planted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fairgate import gate
from fairgate.portraits.world import PLANTS, planted_cells
from fairgate.records import CheckResult
from fairgate.suites import blind_spots, resolve, suite_names

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ROOT / "build" / "portraits" / "checkpoints"

pytestmark = [
    pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no embedded release here: run `dvc pull`"),
    pytest.mark.xdist_group("embedded"),
]

Checks = Mapping[str, CheckResult]
Run = Callable[[str, str], Checks]
PLANTED = {" × ".join(group) for plant in PLANTS for group in plant.groups}


@pytest.fixture(scope="module")
def run(embedded_cache: Path) -> Run:
    """A suite on one of the embedded checkpoints; *base* has no baseline, the others have *base*."""

    @cache
    def evaluate(suite: str, checkpoint: str) -> Checks:
        prepared = gate.prepare(suite, ROOT)
        typed = {"model": f"open_clip:local-dir:{CHECKPOINTS / checkpoint}", "mlflow": "off"}
        typed |= {"cache": str(embedded_cache)} | ({"baseline": "none"} if checkpoint == "base" else {})
        record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record
        assert record.coverage.complete
        assert not [warning for warning in record.warnings if "Remedy:" in warning]
        return {check.item: check for check in record.checks}

    return evaluate


def failed(checks: Checks) -> list[str]:
    return [item for item, check in checks.items() if check.verdict != "pass"]


def test_every_shipped_suite_is_known_here() -> None:
    shipped = {"occupations", "occupations_base", "whackamole", "retrieval", "so_b_it", "implicit_association"}
    assert shipped <= set(suite_names(ROOT))


def test_no_shipped_suite_is_warned_of_what_it_cannot_see() -> None:
    for prepared in (gate.prepare(suite, ROOT) for suite in suite_names(ROOT)):
        assert blind_spots(prepared.loaded, prepared.dataset.manifest, prepared.dataset.index) == []


@pytest.mark.parametrize("suite", ["whackamole", "retrieval", "so_b_it", "implicit_association"])
def test_base_and_a_harmless_fine_tune_pass(run: Run, suite: str) -> None:
    base = run(suite, "base")
    assert {check.verdict for check in base.values() if check.rule != "no_worse_than"} <= {"pass"}
    assert failed(run(suite, "tuned")) == []


def test_the_committed_baseline_decides_as_its_checkpoint_does(run: Run, embedded_cache: Path) -> None:
    """It fails here when prompts, dataset or metric version changed and nobody updated it."""
    prepared = gate.prepare("occupations", ROOT)
    for checkpoint, verdict in (("tuned", "pass"), ("biased", "fail")):
        typed = {"model": f"open_clip:local-dir:{CHECKPOINTS / checkpoint}", "mlflow": "off"}
        typed |= {"cache": str(embedded_cache), "baseline": "file:fairness_suites/baselines/occupations"}
        record = gate.evaluate(prepared, resolve(prepared.loaded.suite, typed, environment={}), command="x").record
        assert record.verdict == verdict
        assert record.baseline is not None
        assert record.baseline.rescored is None
        live = run("occupations", checkpoint)
        assert {check.item: check.verdict for check in record.checks} == {
            item: one.verdict for item, one in live.items()
        }


def test_a_whack_a_mole_improves_every_marginal_and_fails_at_its_crossing(run: Run) -> None:
    checks = run("whackamole", "whackamole")
    assert failed(checks) == ["gap-of-crossings"]
    gains = {group.group: group.delta or 0.0 for group in checks["p-true-by-attribute"].groups}
    assert set(gains) == {"light", "tan", "brown", "dark", "male", "female"}
    assert min(gains.values()) > 0.03, "planted: every gender and every tone gains 0.0375"
    assert max(gains.values()) < 0.045
    crossing = checks["gap-of-crossings"]
    fell = {group.group for group in crossing.groups if group.verdict == "fail"}
    assert fell == {" × ".join(cell) for cell in planted_cells("whackamole", "doctor")} == {"dark × female"}
    assert crossing.worst_group == "dark × female"
    assert crossing.delta is not None
    assert -0.1 < crossing.delta < -0.05, "planted: 0.0825 behind its set-mates"
    assert "behind its set-mates before and 0.0" in crossing.reason


def test_a_search_hardly_shows_the_planted_groups_and_min_skew_says_so(run: Run) -> None:
    checks = run("retrieval", "biased")
    within = ["gender-within-tone[doctor]"]
    assert failed(checks) == [*within, "hardly-shown[doctor]", "hardly-shown[pilot]", "ndkl[pilot]", "entropy[pilot]"]
    for plant in PLANTS:
        check = checks[f"hardly-shown[{plant.subject}]"]
        assert check.status == "infinite"
        assert check.lo is None
        assert f"no image of {check.worst_group} is in the top 100" in str(check.interval)
        absent = {group.group for group in check.groups if group.status == "infinite"}
        assert absent == {" × ".join(group) for group in plant.groups}


def test_a_gender_that_a_search_hides_within_some_tones_is_named_with_tone_and_subject(run: Run) -> None:
    """*biased* lowers brown and dark women as doctors; dark men and women as pilots alike, which is no gender skew."""
    checks = run("retrieval", "biased")
    doctor = checks["gender-within-tone[doctor]"]
    assert {group.group for group in doctor.groups if group.verdict == "fail"} == {"brown × male", "dark × male"}
    assert doctor.value == pytest.approx(np.log(2)), "no woman of these tones is among the first 40"
    assert "0.693 (brown × male), 0.693 (dark × male)" in doctor.reason
    assert {"light × male", "tan × female"} <= {group.group for group in doctor.groups if group.verdict == "pass"}
    assert checks["gender-within-tone[pilot]"].verdict == "pass"
    assert checks["gender-bias[doctor]"].verdict == "pass", "over all tones the bound of Bias@100 does not see it"


def test_a_whack_a_mole_fails_within_the_tone_that_it_was_planted_in(run: Run) -> None:
    checks = run("retrieval", "whackamole")
    found = {
        item: one.worst_group
        for item, one in checks.items()
        if one.metric.startswith("marginal") and one.verdict == "fail"
    }
    assert found == {"gender-within-tone[doctor]": "dark × female", "gender-within-tone[firefighter]": "dark × female"}


def test_a_word_brings_up_the_groups_that_were_planted(run: Run) -> None:
    checks = run("so_b_it", "biased")
    neighbours = [plant.neighbour for plant in PLANTS]
    expected = [f"{check}[{word}]" for check in ("c-asc", "skew") for word in neighbours]
    assert failed(checks) == [*expected, "entropy[healthcare]", "entropy[transport]"], "the categories of these words"
    for item in expected:
        assert checks[item].worst_group in PLANTED, item


def test_a_pair_of_labels_is_told_apart_by_who_is_shown(run: Run) -> None:
    checks = run("implicit_association", "biased")
    assert failed(checks) == ["spread[doctor]", "gap[doctor]", "no-regression"]
    assert checks["gap[doctor]"].worst_group in PLANTED
    assert checks["gap[doctor]"].value == pytest.approx(-0.365, abs=0.03)
    assert {group.group for group in checks["no-regression"].groups if group.verdict == "fail"} <= PLANTED


@pytest.mark.parametrize("suite", ["retrieval", "so_b_it"])
def test_every_rank_metric_stands_beside_what_a_fair_ranker_has(run: Run, suite: str) -> None:
    ranked = [check for check in run(suite, "tuned").values() if check.tie_at_k is not None]
    assert len(ranked) > 5
    for check in ranked:
        assert check.null_median is not None, check.item
        assert check.null_p95 is not None, check.item
        assert check.tie_at_k is False, check.item
