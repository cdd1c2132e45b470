"""A suite that asks about bias must ask about use, in a way that a blind model fails."""

from __future__ import annotations

import pytest
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.ground.errors import SuiteError
from fairgate.suites import load_suite

BARE = SUITE.replace("  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.9}\n", "")
NONE = BARE.replace("  - {id: useful, probe: labels, metric: accuracy, no_worse_than: baseline, margin: 0.05}\n", "")
SHARED = "labels: [chef, line cook, doctor, nurse]"
OWN = "labels: {chef: [chef, line cook], doctor: [doctor, nurse]}"


def refused(toy: Toy, text: str) -> SuiteError:
    with pytest.raises(SuiteError) as caught:
        load_suite(toy.write_suite(text), toy.root)
    return caught.value


def test_a_suite_without_a_utility_check_is_refused_with_a_line_to_paste(toy: Toy) -> None:
    error = refused(toy, NONE)
    assert "none says whether the model is still of use" in error.problem
    line = "- {id: finds-its-subject, probe: search, metric: recall_at_k, k: 1, no_worse_than: baseline, margin: 0.02}"
    assert line in str(error.remedy)
    assert str(error.where).startswith("fairness_suites/jobs.yaml:")
    load_suite(toy.write_suite(f"{NONE}  {line}\n"), toy.root)
    weak = "- {id: finds-its-subject, probe: search, metric: recall_at_k, k: 1, at_least: 0}"
    assert refused(toy, f"{NONE}  {weak}\n").remedy == f"write `{line}` in its place"


def test_the_line_fits_what_the_suite_has(toy: Toy) -> None:
    alone = NONE.replace("baseline: model:scores:base.csv?values=logit\n", "")
    alone = alone.replace("no_worse_than: baseline, margin: 0.03", "at_least: 0.9")
    alone = alone.replace("no_worse_than: baseline, margin: 0.04", "at_least: -0.1")
    assert "k: 1, at_least: 0.80}" in str(refused(toy, alone).remedy)
    search = '  search:\n    kind: retrieval\n    prompts: ["{subject}", "a picture of {a_subject}"]\n'
    skew = next(line for line in NONE.splitlines(keepends=True) if "id: skew" in line)
    no_search = NONE.replace(search, "").replace(skew, "")
    assert "add a probe `search:" in str(refused(toy, no_search).remedy)
    assert "probe: labels, metric: accuracy" in str(refused(toy, no_search.replace(OWN, SHARED)).remedy)


def test_accuracy_among_labels_with_one_truth_is_no_utility_and_among_shared_ones_it_is(toy: Toy) -> None:
    error = refused(toy, BARE)
    assert "'useful' would pass one too: each image of 'labels' has one right answer among its own" in error.problem
    load_suite(toy.write_suite(BARE.replace(OWN, SHARED)), toy.root)
    load_suite(toy.write_suite(BARE.replace(OWN, f"{SHARED}\n    truth: gender\n    words: {{male: chef}}")), toy.root)


def test_a_bound_at_chance_is_no_utility(toy: Toy) -> None:
    rule = "no_worse_than: baseline, margin: 0.05}"
    for bound, wrong in (("0.25", True), ("0.26", False)):
        text = BARE.replace(OWN, SHARED).replace(f"metric: accuracy, {rule}", f"metric: accuracy, at_least: {bound}}}")
        if wrong:
            assert "at least 0.25 is no more than chance, 0.25" in refused(toy, text).problem
        else:
            load_suite(toy.write_suite(text), toy.root)
    toy.write_suite(BARE + "  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.5}\n")
    with pytest.raises(SuiteError, match=r"'useful' would pass one too"):
        gate.prepare("jobs", toy.root)  # 2 subjects: 0.5 is chance
    toy.write_suite(BARE + "  - {id: finds, probe: search, metric: recall_at_k, k: 1, at_least: 0.51}\n")
    assert gate.prepare("jobs", toy.root).planned


def test_a_suite_that_asks_about_nothing_but_use_needs_nothing_more(toy: Toy) -> None:
    checks = "checks:\n  - {id: right, probe: labels, metric: accuracy, over: gender, at_least: 0.5}\n"
    load_suite(toy.write_suite(SUITE.split("checks:")[0] + checks), toy.root)


def test_among_all_subjects_the_right_one_is_always_found(toy: Toy) -> None:
    toy.write_suite(
        SUITE + "  - {id: vain, probe: search, metric: recall_at_k, k: 2, no_worse_than: baseline, margin: 0.1}\n"
    )
    with pytest.raises(SuiteError, match="it would always be there") as caught:
        gate.prepare("jobs", toy.root)
    assert "below the number of subjects" in str(caught.value.remedy)
