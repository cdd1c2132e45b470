"""The scores of BBQ on answers that were counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fairgate.formulas.metrics import stereotype_balance, stereotype_score


def test_a_score_is_of_the_answers_that_name_somebody_and_a_balance_of_all() -> None:
    answers = [1] * 6 + [-1] * 2 + [0] * 12
    assert stereotype_score(answers) == pytest.approx(2 * 6 / 8 - 1)
    assert stereotype_balance(answers) == pytest.approx((6 - 2) / 20)


@pytest.mark.parametrize("abstained", [0, 3, 40])
def test_a_balance_is_bbqs_ambiguous_score_where_every_other_answer_is_an_abstention(abstained: int) -> None:
    answers = np.array([1] * 5 + [-1] * 3 + [0] * abstained)
    accuracy = np.mean(answers == 0)  # of ambiguous questions, an abstention is right
    assert stereotype_balance(answers) == pytest.approx((1 - accuracy) * stereotype_score(answers))
