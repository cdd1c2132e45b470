"""Scores in, numbers out: one value per set, query or group first, a summary second. Pure functions on NumPy arrays."""

from fairgate.metrics.association import (
    ImplicitAssociation,
    association,
    c_asc,
    differential_association,
    implicit_association,
    top_k_similarity,
    word_strength,
)
from fairgate.metrics.counterfactual import (
    GroupAccuracy,
    accuracy_by_group,
    fairness,
    misclassification_table,
    set_deviation,
    set_std,
    softmax_probability,
)
from fairgate.metrics.groups import GroupMeans, by_set_and_group, group_means, intersection
from fairgate.metrics.resampled import ndkl_at_k_weighted, ranking, skew_at_k_weighted, weighted_group_counts
from fairgate.metrics.retrieval import (
    NullSkew,
    expected_max_skew,
    max_skew_at_k,
    min_skew_at_k,
    ndkl_at_k,
    ndkl_of_ranking,
    skew_at_k,
    skew_of_counts,
    tie_at_k,
)

__all__ = [
    "GroupAccuracy",
    "GroupMeans",
    "ImplicitAssociation",
    "NullSkew",
    "accuracy_by_group",
    "association",
    "by_set_and_group",
    "c_asc",
    "differential_association",
    "expected_max_skew",
    "fairness",
    "group_means",
    "implicit_association",
    "intersection",
    "max_skew_at_k",
    "min_skew_at_k",
    "misclassification_table",
    "ndkl_at_k",
    "ndkl_at_k_weighted",
    "ndkl_of_ranking",
    "ranking",
    "set_deviation",
    "set_std",
    "skew_at_k",
    "skew_at_k_weighted",
    "skew_of_counts",
    "softmax_probability",
    "tie_at_k",
    "top_k_similarity",
    "weighted_group_counts",
    "word_strength",
]
