"""Group effects with sets as clusters, and who is taken for whom."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from audit_toy import audit_of, classification, effects_of, implicit
from toy_repository import SUITE, Toy, write_scores_table

from fairgate.formulas.statistics import holm
from fairgate.ground.errors import SettingsError
from fairgate.records.comparison import AuditRecord
from fairgate.reports.comparison_files import audit_lines, audit_tables
from fairgate.reports.comparison_findings import findings, harmed, refusal_words, small_differences
from fairgate.reports.comparison_page import comparison_html
from fairgate.studies.comparison import AuditOptions
from fairgate.studies.comparison.answers import reference_groups, share_limits, viable_groupings
from fairgate.studies.comparison.classifications import finest


def test_the_planted_group_falls_behind_the_reference_and_no_other_does(toy_audit: AuditRecord) -> None:
    for outcome in ("correct", "p_true"):
        effects = effects_of(toy_audit, "biased", outcome, "doctor")
        assert set(effects) == {"light × female", "dark × male", "dark × female"}
        planted = effects.pop("dark × female")
        assert planted.reference == "light × male"
        assert planted.hi < -0.4
        assert planted.p_adjusted < 0.001
        assert all(row.p_adjusted > 0.05 for row in effects.values())
    (row,) = harmed(classification(toy_audit), 0.05)
    assert (row.model, row.subject, row.group) == ("biased", "doctor", "dark × female")


def test_no_effect_is_found_where_nothing_was_planted(toy_audit: AuditRecord) -> None:
    rows = [row for row in classification(toy_audit).effects if row.model != "biased"]
    assert rows
    assert min(row.p_adjusted for row in rows) > 0.05


def test_an_effect_is_the_difference_of_group_means(toy: Toy, toy_audit: AuditRecord) -> None:
    planted = effects_of(toy_audit, "biased", "correct", "doctor")["dark × female"]
    (one,) = [row for row in classification(toy_audit).taken if row.group == "dark × female"]
    assert (one.predicted, one.total) == ("nurse", 40)
    assert planted.reference_mean == 1.0
    assert planted.effect == pytest.approx(-one.count / one.total)
    assert (planted.n_sets, planted.n_images) == (40, 40)


def test_p_values_are_corrected_over_models_groups_and_subjects(toy_audit: AuditRecord) -> None:
    rows = [r for r in classification(toy_audit).effects if r.outcome == "p_true" and r.over == "gender"]
    overall, by_subject = ([row for row in rows if (row.subject is None) == flag] for flag in (True, False))
    assert (len(overall), len(by_subject)) == (3, 6)
    for family in (overall, by_subject):
        np.testing.assert_allclose([row.p_adjusted for row in family], holm([row.p for row in family]))


def test_a_model_that_is_always_right_has_no_effects_and_the_record_says_why(toy_audit: AuditRecord) -> None:
    refused = classification(toy_audit).refusals
    assert not effects_of(toy_audit, "base", "correct", None)
    assert {one.model for one in refused if one.subject is None} == {"base", "tuned"}
    (said,) = refusal_words(refused)
    assert said.startswith("No group effects on right answers of base, tuned, biased (chef): every image")


@pytest.mark.parametrize(
    ("share", "limits"), [(1.0, (0.025 ** (1 / 40), 1.0)), (0.0, (0.0, 1 - 0.025 ** (1 / 40))), (0.5, (0.5, 0.5))]
)
def test_a_share_of_all_sets_has_binomial_limits(share: float, limits: tuple[float, float]) -> None:
    assert share_limits(share, share, share, 40, 0.05) == pytest.approx(limits)


def test_an_audit_says_how_wrong_a_model_may_be_that_is_always_right(toy_audit: AuditRecord) -> None:
    rows = [row for row in classification(toy_audit).fairness if row.accuracy == 1.0]
    assert rows
    assert all(row.accuracy_lo < 1.0 == row.accuracy_hi for row in rows)


def test_a_difference_that_every_set_shows_alike_has_no_interval_and_the_p_of_a_sign_test(toy: Toy) -> None:
    lines = (toy.root / "base.csv").read_text(encoding="utf-8").splitlines()
    swapped = [
        ",".join([*cells[:4], "-9.0", *cells[5:]])
        if (cells := line.split(","))[0].startswith("doctor") and cells[1] == "dark-female"
        else line
        for line in lines
    ]
    (toy.root / "total.csv").write_text("\n".join(swapped), encoding="utf-8")
    row = effects_of(audit_of(toy.root, "total"), "total", "correct", "doctor")["dark × female"]
    assert (row.effect, row.lo, row.hi) == (-1.0, None, None)
    assert row.p == pytest.approx(2.0**-39)
    others = effects_of(audit_of(toy.root, "total"), "total", "correct", "doctor")["dark × male"]
    assert (others.effect, others.lo, others.p) == (0.0, None, 1.0)


def test_the_findings_name_the_group_the_share_and_the_label(toy_audit: AuditRecord) -> None:
    first, *rest = findings(toy_audit)
    assert first == (
        "biased gets 30% of dark × female doctor images right, and 100% of light × male ones (−0.700 [−0.845, "
        "−0.555]); 70% are taken for “nurse”"
    )
    assert all("biased" in text for text in rest)


def test_a_group_that_is_named_rightly_but_less_surely_is_a_finding(toy: Toy) -> None:
    write_scores_table(toy.root / "unsure.csv", 40, seed=7, planted={("doctor", "dark", "female"): 0.9})
    record = audit_of(toy.root, "base", "unsure")
    assert not harmed(classification(record), 0.05)
    (said,) = [text for text in findings(record) if "P(true label)" in text]
    assert said == (
        "unsure: P(true label) of dark × female images is 0.061 lower than of light × male ones [−0.077, −0.046]"
    )


def test_nothing_stands_out_of_harmless_models(audited_toy: Toy) -> None:
    record = audit_of(audited_toy.root, "base", "tuned")
    assert findings(record) == ["No group effect, pair of models or search stands out after correction."]
    assert small_differences(record) is None


NOTHING = "No group effect, pair of models or search stands out after correction."


def told_p_values(record: AuditRecord) -> list[float]:
    """Every adjusted p-value that a classification's tables show, but of differences of nothing."""
    probe = classification(record)
    of_pairs = [(pair.p_paired, pair.spread_delta) for pair in probe.pairs]
    of_pairs += [(pair.p_accuracy, pair.accuracy_delta) for pair in probe.pairs]
    of_pairs += [(pair.p_mood_adjusted, pair.delta) for pair in probe.pairs]
    shown = [*of_pairs, *((row.p_adjusted, row.effect) for row in probe.effects)]
    return [p for p, size in shown if p is not None and size]


@pytest.mark.parametrize("reference", [(), ("female", "dark")])
@pytest.mark.parametrize("min_sets", [30, 81], ids=["crossed", "each attribute alone"])
@pytest.mark.parametrize("worse", ["biased", "unsure", "hint"])
def test_what_is_clear_in_a_table_is_a_finding_or_counted_as_small(
    toy: Toy, worse: str, min_sets: int, reference: tuple[str, ...]
) -> None:
    """Whichever attribute, group of reference or direction it is of."""
    write_scores_table(toy.root / "unsure.csv", 40, seed=7, planted={("doctor", "dark", "female"): 0.9})
    write_scores_table(toy.root / "hint.csv", 40, seed=7, planted={("doctor", "dark", "female"): 0.25})
    toy.write_suite(SUITE.replace("decision:", f"groups: {{min_sets: {min_sets}}}\ndecision:"))
    record = audit_of(toy.root, "base", worse, options=AuditOptions(reference=reference))
    assert min(told_p_values(record)) < 0.001
    assert findings(record) != [NOTHING]
    if findings(record)[0].startswith(NOTHING.replace("out after", "out by its size after")):
        assert "differences are clear after correction" in (small_differences(record) or "")
    if worse != "hint":
        assert any(worse in text for text in findings(record))


def test_a_group_that_is_the_reference_and_behind_the_others_is_a_finding(toy_audit: AuditRecord, toy: Toy) -> None:
    record = audit_of(toy.root, "base", "biased", options=AuditOptions(reference=("female", "dark")))
    first = findings(record)[0]
    assert first == (
        "biased gets 30% of dark × female doctor images right, and 100% of light × male ones (−0.700 [−0.845, "
        "−0.555]); 70% are taken for “nurse”; other groups are ahead of them too"
    )


def test_each_attribute_is_looked_at_where_they_cannot_be_crossed(toy: Toy) -> None:
    tone = {("doctor", "dark", gender): 2.5 for gender in ("male", "female")}
    write_scores_table(toy.root / "tone.csv", 40, seed=7, planted=tone)
    toy.write_suite(SUITE.replace("decision:", "groups: {min_sets: 81}\ndecision:"))
    record = audit_of(toy.root, "base", "tone")
    first, *_ = findings(record)
    assert first.startswith("tone gets ")
    assert "of dark doctor images right, and 100% of light ones" in first
    assert "are taken for “nurse”" in first
    assert {one.over for one in classification(record).taken} == {"skin_tone", "gender"}
    page = comparison_html(record)
    assert "doctor by skin_tone" in page
    assert "doctor by gender" in page


def test_a_difference_that_every_set_shows_alike_is_a_finding_too(toy: Toy) -> None:
    (header, *lines) = (toy.root / "base.csv").read_text(encoding="utf-8").splitlines()
    flat = []
    for line in lines:
        set_id, member, *_ = line.split(",")
        loss = 0.5 if member == "dark-female" else 0.0
        truth = set_id.partition("-")[0]
        prompts = header.split(",")[2:]
        logits = [2.0 - loss if prompt.endswith(truth) else 0.0 for prompt in prompts]
        logits = [one + 0.1 * prompt.startswith("a picture") for one, prompt in zip(logits, prompts, strict=True)]
        flat.append(",".join([set_id, member, *map(str, logits)]))
    (toy.root / "flat.csv").write_text("\n".join([header, *flat]), encoding="utf-8")
    (row,) = [
        row
        for row in classification(audit_of(toy.root, "flat")).effects
        if (row.outcome, row.group, row.subject) == ("p_true", "dark × female", None)
    ]
    assert (row.lo, row.p_adjusted < 0.001) == (None, True)
    (said,) = [text for text in findings(audit_of(toy.root, "flat")) if "P(true label)" in text]
    assert said == "flat: P(true label) of dark × female images is 0.063 lower than of light × male ones in every set"


def test_what_happens_to_one_subject_alone_is_a_finding_of_that_subject(toy: Toy) -> None:
    both = {("doctor", "dark", "female"): 0.5, ("chef", "light", "male"): 0.5}  # over both subjects they cancel out
    write_scores_table(toy.root / "each.csv", 40, seed=7, planted=both)
    record = audit_of(toy.root, "base", "each")
    said = [text for text in findings(record) if "P(true label)" in text]
    assert any("of dark × female doctor images" in text and "lower" in text for text in said)
    assert any("of light × male chef images" in text and text.endswith("are ahead of them too") for text in said)


def test_single_models_that_name_less_rightly_are_findings(toy_audit: AuditRecord) -> None:
    (said,) = [text for text in findings(toy_audit) if "rightly" in text]
    assert said == "biased names images rightly less often than base, tuned: accuracy is lower by 0.087"


def test_of_an_attribute_that_says_what_is_right_mistakes_are_told_by_its_groups() -> None:
    singles = [("gender",), ("race",), ("age",)]
    assert finest([*singles, ("gender", "race")], "gender") == [("gender", "race"), ("age",)]
    assert finest([*singles, ("race", "age")], "gender") == [("gender",), ("race", "age")]
    assert finest([("race",), ("age",), ("race", "age")], "gender") == [("gender",), ("race", "age")]
    assert finest([("gender",), ("race",), ("gender", "race")], None) == [("gender", "race")]


def test_another_reference_group_may_be_chosen(audited_toy: Toy) -> None:
    record = audit_of(audited_toy.root, "biased", options=AuditOptions(reference=("female", "dark")))
    assert record.decision.reference == {"skin_tone": "dark", "gender": "female"}
    effects = effects_of(record, "biased", "correct", "doctor")
    assert {row.reference for row in effects.values()} == {"dark × female"}
    assert min(row.lo for row in effects.values()) > 0.4


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(["drak"], "did you mean 'dark'"), (["light", "dark"], "two reference groups of 'skin_tone'")],
)
def test_a_reference_that_is_no_group_is_refused(wanted: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        reference_groups({"skin_tone": ["light", "dark"], "gender": ["male", "female"]}, wanted)


class Rows:
    """Three attributes over 40 single images; `c` is rare in one group of `a`."""

    set_id = np.array([str(number) for number in range(40)], dtype=object)
    columns: ClassVar = {
        "a": np.arange(40) % 2,
        "b": np.arange(40) // 2 % 2,
        "c": ((np.arange(40) % 2) * (np.arange(40) < 30)),
    }

    def codes(self, grouping: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
        code = np.zeros(40, dtype=np.int64)
        for name in grouping:
            code = code * 2 + self.columns[name]
        names = [
            " × ".join(f"{name}{bit}" for name, bit in zip(grouping, bits, strict=True)) for bits in cells(grouping)
        ]
        return code, names


def cells(grouping: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(np.ndindex(*(2 for _ in grouping)))


def test_attributes_are_crossed_as_far_as_sets_reach() -> None:
    singles = (("a",), ("b",), ("c",))
    groupings, left_out = viable_groupings(Rows(), ["a", "b", "c"], 6)
    assert groupings == (*singles, ("a", "b"), ("b", "c"))
    assert left_out[("a", "c")] == "a0 × c1 has 0 sets, and a group needs 6 (groups.min_sets)"
    assert set(left_out) == {("a", "b", "c"), ("a", "c")}
    assert viable_groupings(Rows(), ["a", "b"], 10) == ((("a",), ("b",), ("a", "b")), {})
    assert viable_groupings(Rows(), ["a", "b"], 11)[0] == (("a",), ("b",))
    assert viable_groupings(Rows(), ["a"], 99) == ((("a",),), {})
    said = viable_groupings(Rows(), ["a", "b"], 11, "image")[1]["a", "b"]
    assert said == "a0 × b0 has 10 images, and a group needs 11 (groups.min_sets)"


def test_a_crossing_of_too_few_sets_is_left_out_and_said(toy: Toy) -> None:
    toy.write_suite(SUITE.replace("decision:", "groups: {min_sets: 81}\ndecision:"))
    record = audit_of(toy.root, "base", "biased")
    assert set(record.left_out) == {"skin_tone × gender"}
    assert {row.over for row in classification(record).effects} == {"skin_tone", "gender"}
    assert "Left out: skin_tone × gender" in comparison_html(record)
    assert any(line.startswith("left out: skin_tone × gender") for line in audit_lines(record))


def test_an_implicit_association_is_told_by_group_and_within_sets(toy: Toy) -> None:
    probe = '  trust: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, nurse], '
    toy.write_suite(SUITE.replace("  search:\n", probe + "positive: doctor}\n  search:\n"))
    record = audit_of(toy.root, "base", "biased")
    found = implicit(record)
    assert found.positive == "doctor"
    planted, before = (
        {row.group: row for row in found.groups if row.model == name and row.over == "skin_tone × gender"}
        for name in ("biased", "base")
    )
    assert planted["dark × female"].within_sets < -0.1 < before["dark × female"].within_sets
    assert sum(row.within_sets for row in planted.values()) == pytest.approx(0)
    spread = {row.model: row for row in found.spreads if row.over == "gender"}
    assert spread["biased"].value > 3 * spread["base"].value
    effect = [row for row in found.effects if row.model == "biased" and row.group == "dark × female"]
    assert {row.outcome for row in effect} == {"p_positive"}
    assert max(row.hi for row in effect if row.subject == "doctor") < -0.2
    assert any(
        text.startswith("biased: P(“doctor”) of dark × female images is 0.2")
        and "lower than of light × male ones" in text
        for text in findings(record)
    )
    assert not any(text.startswith("base: P(") for text in findings(record))


def test_means_of_an_implicit_association_and_their_spread_have_intervals(toy: Toy) -> None:
    """The spread's lower limit is above 0 where a gap was planted, and 0 is inside of it where none was."""
    probe = '  trust: {kind: zero_shot_classification, template: "a photo of a {label}", labels: [doctor, nurse], '
    toy.write_suite(SUITE.replace("  search:\n", probe + "positive: doctor}\n  search:\n"))
    found = implicit(audit_of(toy.root, "base", "biased"))
    assert all(row.lo < row.mean < row.hi for row in found.groups)
    planted, harmless = (
        next(row for row in found.spreads if (row.model, row.over) == (model, "skin_tone × gender"))
        for model in ("biased", "base")
    )
    means = {row.group: row.mean for row in found.groups if (row.model, row.over) == ("biased", planted.over)}
    assert planted.value == pytest.approx(max(means.values()) - min(means.values()))
    assert 0.1 < planted.lo < planted.value < planted.hi
    assert harmless.lo == 0 < harmless.hi


def test_single_images_have_no_f_m_and_keep_accuracy_and_effects(tmp_path: Path) -> None:
    from imported_photographs import import_images

    people = [(region, number) for region in ("north", "south") for number in range(60)]
    with (tmp_path / "labels.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["file", "gender", "region"])
        writer.writerows([f"{r}/{n}.jpg", "Female" if n % 2 else "Male", r] for r, n in people)
    groups = {"gender": ["Male", "Female"], "region": ["north", "south"]}
    import_images(
        tmp_path / "labels.csv", None, "people", attributes=groups, subject="person", root=tmp_path / "datasets"
    )
    for name, wrong in (("good", 10), ("bad", 3)):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(["file", "a photo of a man", "a photo of a woman"])
            for region, number in people:
                right = number % (wrong if region == "south" else 10) != 0
                writer.writerow([f"{region}/{number}.jpg", 1.0 if (number % 2 == 0) == right else -1.0, 0.0])
    (tmp_path / "fairness_suites").mkdir()
    (tmp_path / "fairness_suites" / "people.yaml").write_text(
        "schema: 1\nsuite: people\ndataset: people\nprobes:\n  gender:\n    kind: zero_shot_classification\n"
        '    template: "a photo of a {label}"\n    labels: [man, woman]\n    truth: gender\n'
        "    words: {Male: man, Female: woman}\ndecision: {draws: 500}\n"
        "checks:\n  - {id: useful, probe: gender, metric: accuracy, at_least: 0.5}\n",
        encoding="utf-8",
    )
    record = audit_of(tmp_path, "good", "bad", suite="people")
    found = classification(record)
    assert {row.fairness for row in found.fairness} == {None}
    (pair,) = found.pairs
    assert pair.conclusion is pair.p_mood is pair.p_paired is None
    assert pair.accuracy_hi < 0
    assert any(
        text.startswith("bad names images rightly less often than good: accuracy is") for text in findings(record)
    )
    (table,) = [table for table in audit_tables(record) if "second against first" in str(table.title)]
    assert [str(column.header) for column in table.columns] == ["models", "Δ accuracy", "paired p"]
    (region,) = [e for e in found.effects if (e.model, e.over, e.outcome) == ("bad", "region", "correct")]
    assert region.hi < 0
    assert region.n_sets == 120
