"""F_M, accuracy and pairs of models: what the tables say, what the two tests say, and why they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from audit_toy import audit_of, classification, pair_of, uri
from scipy.stats import median_test
from toy_repository import SUITE, Toy, write_scores_table

from fairgate import gate
from fairgate.formulas.metrics import fairness, set_std
from fairgate.ground.errors import ModelError, SettingsError
from fairgate.records.comparison import AuditRecord
from fairgate.studies.comparison import AuditOptions
from fairgate.studies.comparison.classifications import agreement, conclusion, draws_for
from fairgate.suites import resolve


def spreads(root: Path, name: str) -> np.ndarray:
    prepared = gate.prepare("jobs", root)
    typed = {"model": uri(name), "baseline": "none", "mlflow": "off", "cache": "off"}
    scores = gate.score(prepared, resolve(prepared.loaded.suite, typed)).scores["labels"].value
    return scores.reshape(-1, 4)  # stored set by set


def test_f_m_and_accuracy_are_the_metrics_themselves_between_limits(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    rows = {(row.model, row.subject): row for row in classification(toy_audit).fairness}
    assert set(rows) == {(m, s) for m in ("base", "tuned", "biased") for s in (None, "chef", "doctor")}
    for name in ("base", "biased"):
        p_true = spreads(audited_toy.root, name)
        assert rows[name, None].fairness == pytest.approx(fairness(p_true), abs=1e-12)
        assert rows[name, "doctor"].fairness == pytest.approx(fairness(p_true[40:]), abs=1e-12)
    for row in rows.values():
        assert row.lo <= row.fairness <= row.hi
        assert row.accuracy_lo <= row.accuracy <= row.accuracy_hi
    assert rows["base", "doctor"].accuracy == 1.0
    assert (rows["biased", None].n_sets, rows["biased", None].n_images) == (80, 320)
    assert rows["biased", "doctor"].fairness < 0.85 < rows["biased", "chef"].fairness


def test_moods_p_is_scipys_times_the_number_of_pairs(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    first, second = (set_std(spreads(audited_toy.root, name)) for name in ("base", "biased"))
    pair = pair_of(toy_audit, "base", "biased")
    assert pair.p_mood == pytest.approx(median_test(first, second).pvalue, rel=1e-9)
    assert pair.p_mood_adjusted == pytest.approx(min(1.0, 3 * pair.p_mood))
    assert pair.delta == pytest.approx(np.median(first) - np.median(second))
    assert pair.spread_delta == pytest.approx((second - first).mean())


def test_a_planted_bias_is_seen_by_both_tests_and_a_harmless_change_by_neither(toy_audit: AuditRecord) -> None:
    for subject in (None, "doctor"):
        planted = pair_of(toy_audit, "base", "biased", subject)
        assert planted.conclusion == "first_fairer"
        assert planted.p_mood_adjusted < 0.01 > planted.p_paired
        assert planted.agreement == "agree"
        assert planted.spread_lo > 0.03
    assert pair_of(toy_audit, "base", "biased").accuracy_hi < 0
    for subject in (None, "chef", "doctor"):
        harmless = pair_of(toy_audit, "base", "tuned", subject)
        assert harmless.conclusion == "alike"
        assert harmless.p_mood_adjusted > 0.05 < harmless.p_paired
        assert harmless.accuracy_delta == 0


def test_the_limits_hold_for_more_pairs_at_once_when_more_models_are_compared(
    audited_toy: Toy, toy_audit: AuditRecord
) -> None:
    alone = pair_of(audit_of(audited_toy.root, "base", "tuned"), "base", "tuned")
    among = pair_of(toy_audit, "base", "tuned")
    assert alone.p_mood_adjusted == alone.p_mood == among.p_mood
    assert alone.hi - alone.lo <= among.hi - among.lo  # of medians, which have few values
    assert alone.spread_hi - alone.spread_lo < among.spread_hi - among.spread_lo
    assert alone.p_paired <= among.p_paired


@pytest.mark.parametrize(
    ("lo", "hi", "concluded"),
    [
        (0.011, 0.5, "first_fairer"),
        (-0.5, -0.011, "second_fairer"),
        (-0.01, 0.01, "alike"),
        (0.01, 0.02, "unsettled"),
        (-0.02, 0.0, "unsettled"),
        (-np.inf, np.inf, "unsettled"),
    ],
)
def test_limits_are_weighed_against_the_margin(lo: float, hi: float, concluded: str) -> None:
    assert conclusion(lo, hi, 0.01) == concluded


@pytest.mark.parametrize(
    ("mood", "paired", "limits", "spread", "why"),
    [
        (0.001, 0.001, (-0.2, -0.1), 0.1, "agree"),
        (0.5, 0.5, (-0.1, 0.1), 0.1, "agree"),
        (0.5, 0.001, (-0.2, -0.1), 0.1, "pairing"),
        (0.5, 0.001, (-0.2, 0.1), 0.1, "few_sets"),
        (0.001, 0.5, (-0.2, -0.1), 0.1, "cancels"),
        (0.001, 0.5, (-0.2, 0.1), 0.1, "independence"),
        (0.001, 0.001, (-0.2, -0.1), -0.1, "opposite"),
        (0.05, 0.05, (-0.2, -0.1), 0.1, "agree"),
        (None, 0.001, (-0.2, 0.1), 0.1, "few_sets"),
    ],
)
def test_why_the_two_tests_disagree(
    mood: float | None, paired: float, limits: tuple[float, float], spread: float, why: str
) -> None:
    pair = {"p_mood_adjusted": mood, "p_paired": paired, "lo": limits[0], "hi": limits[1], "delta": sum(limits) / 2}
    assert agreement(pair | {"spread_delta": spread}, 0.05) == why


def test_a_bias_in_fewer_than_half_of_the_sets_turns_median_and_mean_against_each_other(toy: Toy) -> None:
    # Doctors are half of the sets; a calmer model elsewhere and harm to a third of the sets: the median improves.
    write_scores_table(toy.root / "loud.csv", 40, seed=5, noise=0.3)
    lines = (toy.root / "base.csv").read_text(encoding="utf-8").splitlines()
    harmed = [
        ",".join([*cells[:4], "-3.0", *cells[5:]])
        if (cells := line.split(","))[0] >= "doctor-015" and cells[0].startswith("doctor") and cells[1] == "dark-female"
        else line
        for line in lines
    ]
    (toy.root / "narrow.csv").write_text("\n".join(harmed), encoding="utf-8")
    pair = pair_of(audit_of(toy.root, "loud", "narrow"), "loud", "narrow")
    assert pair.delta > 0.01
    assert pair.spread_delta > 0
    assert pair.agreement == "opposite"
    assert pair.conclusion == "first_fairer"


def test_the_margin_is_the_suites_own_unless_another_is_wished(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    assert classification(toy_audit).margin == 0.03
    strict = audit_of(audited_toy.root, "base", "tuned", options=AuditOptions(margin=0.0))
    assert classification(strict).margin == 0.0
    assert pair_of(strict, "base", "tuned").conclusion == "unsettled"
    with pytest.raises(SettingsError, match="the margin is -1"):
        audit_of(audited_toy.root, "base", options=AuditOptions(margin=-1.0))


def test_without_a_margin_in_the_suite_there_is_a_default(toy: Toy) -> None:
    kept = [line for line in SUITE.splitlines() if "no-regression" not in line]
    toy.write_suite("\n".join(kept))
    assert classification(audit_of(toy.root, "base")).margin == 0.01


def test_one_model_is_a_table_without_pairs(audited_toy: Toy) -> None:
    record = audit_of(audited_toy.root, "base")
    assert classification(record).pairs == []
    assert len(classification(record).fairness) == 3


def test_a_checkpoint_is_not_compared_with_itself(toy: Toy) -> None:
    with pytest.raises(ModelError, match="named twice"):
        audit_of(toy.root, "base", "base")
    (toy.root / "copy.csv").write_bytes((toy.root / "base.csv").read_bytes())
    with pytest.raises(ModelError, match="named twice"):
        audit_of(toy.root, "base", "copy")
    (toy.root / "alike.csv").write_bytes((toy.root / "base.csv").read_bytes() + b"\n")
    with pytest.raises(ModelError, match="identical scores"):
        audit_of(toy.root, "base", "alike")


def test_an_audit_of_no_model_is_refused(audited_toy: Toy) -> None:
    with pytest.raises(SettingsError, match="no model was named"):
        audit_of(audited_toy.root)


def test_draws_can_show_the_level_of_every_pair() -> None:
    assert draws_for(4000, 6, 0.05) == 4000
    assert draws_for(500, 45, 0.05) == 3600
    assert draws_for(1, 0, 0.05) == 80


def test_the_same_audit_gives_the_same_numbers(audited_toy: Toy, toy_audit: AuditRecord) -> None:
    again = audit_of(audited_toy.root, "base", "tuned", "biased")
    assert again.probes == toy_audit.probes
