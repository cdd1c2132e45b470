"""Uncertainty of metrics: intervals by resampling sets, paired tests at a margin, corrected p-values, power."""

from fairgate.statistics.comparison import ClusterOLS, MoodsMedian, cluster_ols, moods_median_test, sign_flip_test
from fairgate.statistics.draws import Resamples, set_count_chunks, set_counts
from fairgate.statistics.extremes import divergence_interval, extreme_interval, skew_interval
from fairgate.statistics.multiplicity import benjamini_hochberg, bonferroni, holm
from fairgate.statistics.paired import (
    PairedComparison,
    compare_draws,
    compare_means,
    decided,
    paired_statistic_test,
    paired_test,
)
from fairgate.statistics.paired_result import BY_GROUP, Design, Outcome, PairedResult, not_judged
from fairgate.statistics.power_analysis import Power, power, power_of_draws, power_of_images
from fairgate.statistics.regression import (
    compare_images,
    group_changes,
    group_regression,
    image_changes,
    image_regression,
)
from fairgate.statistics.resampling import Interval, Unavailable, bootstrap, median_interval, weighted_median

__all__ = [
    "BY_GROUP",
    "ClusterOLS",
    "Design",
    "Interval",
    "MoodsMedian",
    "Outcome",
    "PairedComparison",
    "PairedResult",
    "Power",
    "Resamples",
    "Unavailable",
    "benjamini_hochberg",
    "bonferroni",
    "bootstrap",
    "cluster_ols",
    "compare_draws",
    "compare_images",
    "compare_means",
    "decided",
    "divergence_interval",
    "extreme_interval",
    "group_changes",
    "group_regression",
    "holm",
    "image_changes",
    "image_regression",
    "median_interval",
    "moods_median_test",
    "not_judged",
    "paired_statistic_test",
    "paired_test",
    "power",
    "power_of_draws",
    "power_of_images",
    "set_count_chunks",
    "set_counts",
    "sign_flip_test",
    "skew_interval",
    "weighted_median",
]
