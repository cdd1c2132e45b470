"""The tables of refusals leave no `raise` of the statistics out."""

from __future__ import annotations

from pathlib import Path

from refusals import sites_met, sites_written
from test_interval_errors import REFUSALS as INTERVALS
from test_paired_errors import REFUSALS as PAIRED
from test_statistics_errors import REFUSALS as STATISTICS

import fairgate.formulas.statistics
from fairgate.ground.errors import StatisticsError


def test_every_raise_of_the_statistics_stands_in_a_table() -> None:
    met = sites_met([*INTERVALS.values(), *PAIRED.values(), *STATISTICS.values()], StatisticsError)
    assert sites_written(Path(fairgate.formulas.statistics.__file__).parent) - met == set()
