"""Metrics as a suite uses them: published functions, resampled by sets, with intervals and a fair ranker's value."""

from fairgate.measures.cell import Cell, Cells, Counts, Crossing, Floats, GroupedRows
from fairgate.measures.contract import Answers, Cut, Drawn, Limits, Measure, Metric, MetricRequest, MetricSettings, Ties
from fairgate.measures.fair_chance import NULL_DRAWS, FairRankings
from fairgate.measures.galleries import galleries_of
from fairgate.measures.means import worst_group_mean
from fairgate.measures.parts import resample
from fairgate.measures.registry import METRICS, measure, register
from fairgate.records import Better, MetricSpec

__all__ = [
    "METRICS",
    "NULL_DRAWS",
    "Answers",
    "Better",
    "Cell",
    "Cells",
    "Counts",
    "Crossing",
    "Cut",
    "Drawn",
    "FairRankings",
    "Floats",
    "GroupedRows",
    "Limits",
    "Measure",
    "Metric",
    "MetricRequest",
    "MetricSettings",
    "MetricSpec",
    "Ties",
    "galleries_of",
    "measure",
    "register",
    "resample",
    "worst_group_mean",
]
