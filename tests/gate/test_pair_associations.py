"""S and differential S are found where they were planted, by word, pair and group, and not in a harmless checkpoint."""

from __future__ import annotations

import csv

import pytest
from test_gate_verdicts import by_item, evaluate, scores
from toy_repository import SUITE, Toy

from fairgate.ground.errors import SuiteError

PROBE = """  pairs:
    kind: pair_association
    template: "a photo of a {word}"
    first: [chef, doctor]
    second: [line cook, nurse]
"""
CHECKS = """\
  - {id: everybody, probe: pairs, metric: association, at_most: 0.9}
  - {id: highest, probe: pairs, metric: association, over: gender, at_most: 0.9}
  - {id: differential, probe: pairs, metric: differential_association, over: gender, at_most: 0.2}
  - {id: kept, probe: pairs, metric: differential_association, by: word, over: gender,
     no_worse_than: baseline, margin: 0.1}
  - {id: kept-high, probe: pairs, metric: association, by: word, over: gender, no_worse_than: baseline, margin: 0.1}
"""


def suite(probe: str = PROBE, checks: str = CHECKS) -> str:
    return (
        SUITE.replace("decision:", f"{probe}decision:").split("checks:")[0]
        + f"checks:\n{checks}{SUITE.splitlines()[-1]}\n"
    )


@pytest.fixture
def pairs(toy: Toy) -> Toy:
    """A suite of pairs, and `planted.csv`, in which every second woman is no doctor; both sides tie elsewhere."""
    toy.write_suite(suite())
    for name in ("base", "tuned"):
        with (toy.root / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
            header, *rows = csv.reader(handle)
        words = {one: header.index(f"a photo of a {one}") for one in ("chef", "doctor", "line cook", "nurse")}
        for planted in (False, True) if name == "tuned" else (False,):
            for number, row in enumerate(rows):
                beats = number // 4 % 2 == 0  # whole sets, whoever is shown
                for word, column in words.items():
                    own = word in ("chef", "doctor")
                    row[column] = str(float(row[column]) * 1e-3 + (1.0 if own and beats else 0.5))
                if planted and row[1].endswith("-female") and beats:
                    row[words["doctor"]] = "0.1"
            path = toy.root / f"{'planted' if planted else name}.csv"
            with path.open("w", encoding="utf-8", newline="") as handle:
                csv.writer(handle).writerows([header, *rows])
    return toy


def test_a_planted_word_fails_by_its_name_and_group_and_no_other_of_its_list(pairs: Toy) -> None:
    harmless = by_item(evaluate(pairs).record)
    assert {check.verdict for check in harmless.values()} == {"pass"}, harmless
    found = by_item(evaluate(pairs, model=scores("planted")).record)
    assert [item for item, check in found.items() if check.verdict == "fail"] == ["differential", "kept[doctor]"]
    groups = {group.group: group for group in found["kept[doctor]"].groups}
    assert "male rose by 0.500 in size" in found["kept[doctor]"].reason
    assert {group.group: group.verdict for group in found["differential"].groups} == {"male": "fail", "female": "fail"}
    assert groups["female"].value < -0.3 < 0.3 < groups["male"].value


def test_each_pair_can_be_a_row(pairs: Toy) -> None:
    pairs.write_suite(suite(PROBE + "    each: pair\n"))
    found = by_item(evaluate(pairs, model=scores("planted")).record)
    failed = [item for item, check in found.items() if check.verdict == "fail"]
    assert failed == ["differential", "kept[doctor / line cook]", "kept[doctor / nurse]"]


def test_words_of_both_lists_are_refused(pairs: Toy) -> None:
    pairs.write_suite(suite(PROBE.replace("nurse]", "doctor]")))
    with pytest.raises(SuiteError, match=r"words are given twice: doctor"):
        evaluate(pairs)
