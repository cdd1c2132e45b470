"""Associations of words with groups, and of pairs of labels, are found where they were planted."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from test_gate_verdicts import by_item, evaluate, scores
from toy_repository import SUITE, Toy

from fairgate import gate
from fairgate.formulas.metrics import c_asc
from fairgate.ground.errors import SuiteError
from fairgate.probes import read_scores
from fairgate.suites import resolve

WORDS = SUITE.replace(
    "decision:",
    """  words:
    kind: association
    template: "a photo of a {word}"
    words: [nurse, line cook]
decision:""",
)
CHECKS = """\
  - {id: c-asc, probe: words, metric: c_asc, by: word, over: crossed, at_most: 0.6}
  - {id: average, probe: words, metric: c_asc, over: crossed, at_most: 0.6}
  - {id: skew, probe: words, metric: max_skew_at_k, k: 40, by: word, over: crossed, at_most: 1.2}
  - {id: top, probe: words, metric: normalized_entropy_at_k, k: 40, over: each, at_least: 0.4}
  - {id: two, probe: words, metric: bias_at_k, k: 40, by: word, over: gender, at_most: 0.9}
  - {id: kept, probe: words, metric: c_asc, by: word, over: crossed, no_worse_than: baseline, margin: 0.5}
"""


@pytest.fixture
def words(toy: Toy) -> Toy:
    """A suite that asks two words, and `planted.csv`, in which dark women look like nurses."""
    toy.write_suite(WORDS.split("checks:")[0] + "checks:\n" + CHECKS + SUITE.splitlines()[-1] + "\n")
    with (toy.root / "tuned.csv").open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    nurse = header.index("a photo of a nurse")
    for row in rows:
        if row[1] == "dark-female":
            row[nurse] = str(float(row[nurse]) + 0.3)
    with (toy.root / "planted.csv").open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([header, *rows])
    return toy


def test_a_planted_association_is_found_at_its_word_and_group_and_nowhere_else(words: Toy) -> None:
    harmless = by_item(evaluate(words).record)
    assert {check.verdict for check in harmless.values()} == {"pass"}, harmless
    found = by_item(evaluate(words, model=scores("planted")).record)
    assert [item for item, check in found.items() if check.verdict == "fail"] == [
        "c-asc[nurse]",
        "average",
        "skew[nurse]",
        "two[nurse]",
        "kept[nurse]",
    ]
    assert {found[item].worst_group for item in ("c-asc[nurse]", "average", "skew[nurse]")} == {"dark × female"}
    assert found["two[nurse]"].worst_group == "female"
    assert found["c-asc[nurse]"].word == "nurse"
    assert found["c-asc[nurse]"].subject is None
    assert found["skew[nurse]"].null_median is not None
    assert found["c-asc[nurse]"].null_median is None


def test_a_check_by_category_averages_its_words_and_is_named_for_it(words: Toy) -> None:
    suite = (words.root / "fairness_suites" / "jobs.yaml").read_text(encoding="utf-8")
    checks = """\
  - {id: c-asc, probe: words, metric: c_asc, by: category, over: crossed, at_most: 0.6}
  - {id: top, probe: words, metric: normalized_entropy_at_k, k: 40, by: category, over: each, at_least: 0.9}
  - {id: kept, probe: words, metric: c_asc, by: category, over: crossed, no_worse_than: baseline, margin: 0.5}
waivers:
  - {check: top, subject: care, until: 2999-01-01, reason: "known"}
"""
    head, last = suite.split("checks:")[0], SUITE.splitlines()[-1]
    by_category = head.replace("words: [nurse, line cook]", "words: {care: [nurse], work: [line cook, nurse]}")
    words.write_suite(f"{by_category}checks:\n{last}\n{checks}")
    harmless = by_item(evaluate(words).record)
    assert {check.verdict for check in harmless.values()} == {"pass"}, harmless
    found = by_item(evaluate(words, model=scores("planted")).record)
    care, work = found["c-asc[care]"], found["c-asc[work]"]
    assert (care.verdict, care.worst_group, care.category, care.word) == ("fail", "dark × female", "care", None)
    assert work.value is not None
    assert care.value is not None
    assert work.value < care.value, "a word without a planted group is averaged in"
    assert found["top[care]"].waived
    assert (found["kept[care]"].verdict, found["kept[care]"].worst_group) == ("fail", "dark × female")
    assert care.lo is not None, "one word has an interval"
    assert "ask `by: word`" in str(work.interval)


def test_a_check_by_category_needs_categories(words: Toy) -> None:
    suite = (words.root / "fairness_suites" / "jobs.yaml").read_text(encoding="utf-8")
    words.write_suite(suite.replace("metric: c_asc, by: word", "metric: c_asc, by: category"))
    with pytest.raises(SuiteError, match=r"its probe has no categories of words.*\n.*jobs.yaml:[0-9]+.*\n.*taxonomy"):
        gate.prepare("jobs", words.root)


def test_c_asc_is_that_of_the_metric_and_an_average_of_words_says_why_it_has_no_interval(words: Toy) -> None:
    prepared = gate.prepare("jobs", words.root)
    settings = resolve(
        prepared.loaded.suite,
        {"mlflow": "off", "cache": "off", "report": str(words.root / "out"), "model": scores("planted")},
        environment={},
    )
    evaluation = gate.publish(gate.evaluate(prepared, settings, command="x"), prepared, settings)
    checks, index = by_item(evaluation.record), prepared.dataset.index
    kept = read_scores(words.root / "out" / "scores.parquet", index)
    assert {"words[nurse]", "words[line cook]"} <= set(kept)
    codes, names = index.codes(("skin_tone", "gender"))
    table = np.stack([kept[f"words[{word}]"].value for word in ("nurse", "line cook")])
    exact = c_asc(table, codes, groups=len(names))
    check = checks["c-asc[nurse]"]
    assert check.value == pytest.approx(np.abs(exact[0]).max())
    assert {group.group: group.value for group in check.groups} == pytest.approx(
        dict(zip(names, exact[0].tolist(), strict=True))
    )
    assert check.lo is not None
    assert check.hi is not None
    assert check.lo < check.value < check.hi
    assert checks["average"].value == pytest.approx(np.abs(exact).max(axis=1).mean())
    assert checks["average"].lo is None
    assert "ask `by: word`" in str(checks["average"].interval)
    assert evaluation.record.coverage.prompts == 8, "the words are labels that were asked already"


def test_an_implicit_association_measures_the_positive_label_and_knows_no_right_answer(toy: Toy) -> None:
    toy.write_suite(
        SUITE.split("checks:")[0].replace(
            "decision:",
            """  pair:
    kind: zero_shot_classification
    template: "a photo of a {label}"
    labels: [doctor, nurse]
    positive: doctor
decision:""",
        )
        + """checks:
  - {id: spread, probe: pair, metric: fairness, by: subject, at_least: 0.9}
  - {id: gap, probe: pair, metric: group_gap, over: crossed, by: subject, at_least: -0.05}
"""
        + SUITE.splitlines()[-1]
        + "\n"
    )
    assert evaluate(toy).record.verdict == "pass"
    record = evaluate(toy, model=scores("biased")).record
    checks = by_item(record)
    assert checks["spread[doctor]"].verdict == checks["gap[doctor]"].verdict == "fail"
    assert checks["gap[doctor]"].worst_group == "dark × female"
    assert checks["spread[chef]"].verdict == checks["gap[chef]"].verdict == "pass"
    assert record.probes["pair"].startswith("implicit_association:")
    assert {one.probe for one in record.confusions} <= {"labels"}
    assert checks["gap[doctor]"].worst_sets[0].members[0].correct is None
