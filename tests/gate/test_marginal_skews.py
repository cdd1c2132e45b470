"""A check of the skew within each group names group and subject, and is refused where it makes no sense."""

from __future__ import annotations

import numpy as np
import pytest
from test_gate_verdicts import by_item, evaluate, scores
from test_rank_metrics import similarity
from toy_repository import QUERIES, SUITE, Toy

from fairgate import gate
from fairgate.formulas.metrics import max_skew_at_k
from fairgate.ground.errors import SuiteError

CHECK = "probe: search, metric: marginal_max_skew_at_k, over: crossed"


@pytest.mark.parametrize(
    ("keys", "problem", "remedy"),
    [
        ("k: 20, at_most: 0.9", "`within`", "set `within`"),
        ("k: 20, within: tone, at_most: 0.9", "looks within the groups of 'tone'", "skin_tone"),
        ("k: 81, within: skin_tone, at_most: 0.9", "light images of 'chef', which are 80", "choose k below 80"),
        ("k: 20, within: skin_tone, at_most: 0.1", "a perfectly fair ranker", "raise the bound"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(toy: Toy, keys: str, problem: str, remedy: str) -> None:
    toy.write_suite(SUITE + f"  - {{id: x, {CHECK}, by: subject, {keys}}}\n")
    with pytest.raises(SuiteError) as caught:
        gate.prepare("jobs", toy.root)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("over", ["gender", "each", "[gender]"])
def test_an_attribute_that_is_crossed_with_nothing_is_refused(toy: Toy, over: str) -> None:
    check = CHECK.replace("crossed", over)
    toy.write_suite(SUITE + f"  - {{id: x, {check}, k: 20, within: skin_tone, at_most: 0.9}}\n")
    with pytest.raises(SuiteError, match="crosses with nothing"):
        gate.prepare("jobs", toy.root)


def plant(toy: Toy) -> None:
    """`planted.csv`: *tuned*, with dark women as doctors lowered in the search."""
    lines = (toy.root / "tuned.csv").read_text(encoding="utf-8").splitlines()
    first = lines[0].split(",").index(QUERIES["doctor"][0])
    for at, line in enumerate(lines):
        if line.startswith("doctor-") and ",dark-female," in line:
            parts = line.split(",")
            lines[at] = ",".join([*parts[:first], *(str(float(x) - 0.6) for x in parts[first:])])
    (toy.root / "planted.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_gate_names_group_and_subject_against_bound_and_baseline(toy: Toy) -> None:
    plant(toy)
    toy.write_suite(
        SUITE + f"  - {{id: within, {CHECK}, k: 40, within: skin_tone, by: subject, at_most: 0.45}}\n"
        f"  - {{id: grew, {CHECK}, k: 40, within: skin_tone, by: subject, no_worse_than: baseline, margin: 0.1}}\n"
    )
    tuned, planted = (by_item(evaluate(toy, model=scores(name)).record) for name in ("tuned", "planted"))
    assert tuned["within[chef]"].verdict == tuned["within[doctor]"].verdict == "pass"
    assert tuned["grew[doctor]"].verdict != "fail"
    assert planted["within[chef]"].verdict == "pass"
    assert planted["grew[chef]"].verdict != "fail"
    for item in ("within[doctor]", "grew[doctor]"):
        assert planted[item].verdict == "fail", planted[item].reason
        assert planted[item].worst_group == "dark × male"
    value, index = similarity(toy, "planted")
    here = index.subject == "doctor"
    tones, genders = (np.asarray(index.codes(name)[0])[here] for name in ("skin_tone", "gender"))
    light, dark = ((value[here][None, tones == tone], genders[tones == tone]) for tone in range(2))
    expected = max(max_skew_at_k(*images, 40, groups=2)[0] for images in (light, dark))
    assert planted["within[doctor]"].value == pytest.approx(expected)
