"""The tables of refusals leave no `raise` of the metrics out."""

from __future__ import annotations

from pathlib import Path

from refusals import sites_met, sites_written
from test_gallery_errors import REFUSALS as GALLERIES
from test_metric_errors import REFUSALS as METRICS
from test_ranking_errors import REFUSALS as RANKINGS

import fairgate.formulas.metrics
from fairgate.ground.errors import MetricError


def test_every_raise_of_the_metrics_stands_in_a_table() -> None:
    met = sites_met([*GALLERIES.values(), *METRICS.values(), *RANKINGS.values()], MetricError)
    assert sites_written(Path(fairgate.formulas.metrics.__file__).parent) - met == set()
