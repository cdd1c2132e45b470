"""What a metric's error says: one plain sentence, about an argument as the caller wrote it."""

from __future__ import annotations

import inspect
import re
from itertools import chain

from refusals import Refusal, caught
from test_gallery_errors import REFUSALS as GALLERIES
from test_metric_errors import REFUSALS as METRICS
from test_ranking_errors import REFUSALS as RANKINGS

from fairgate.formulas import metrics
from fairgate.ground.errors import MetricError

INSIDE = {"groups", "resampled", "image"}
"""Words for what an argument holds: its groups, its resampled sets, one of its images."""


def words_of(refusal: Refusal) -> set[str]:
    """The metric that a refusal calls, and its arguments."""
    called = [name for name in refusal.call.__code__.co_names if name in metrics.__all__]
    metric = getattr(metrics, called[0])
    return {*called, *inspect.signature(getattr(metric, "of", metric)).parameters}


def test_the_place_of_every_error_is_an_argument_of_the_metric_that_was_called() -> None:
    for name, refusal in chain(*(table.items() for table in (GALLERIES, METRICS, RANKINGS))):
        where = str(caught(refusal, MetricError).value.where)
        assert re.split(r"[: ]", where)[0] in words_of(refusal) | INSIDE, f"{name}: {where}"


def test_the_problem_of_every_error_is_a_sentence() -> None:
    for name, refusal in chain(*(table.items() for table in (GALLERIES, METRICS, RANKINGS))):
        assert re.fullmatch(r"[a-z0-9`].*\.", str(caught(refusal, MetricError).value.problem)), name
