"""How a model is asked: probes turn a scorer and counterfactual sets into numbers per image."""

from fairgate.probes.association import associate
from fairgate.probes.classification import classify
from fairgate.probes.retrieval import retrieve
from fairgate.probes.scores import METRIC_VERSION, ProbeScores, Rows, read_scores, scores_digest, write_scores

__all__ = [
    "METRIC_VERSION",
    "ProbeScores",
    "Rows",
    "associate",
    "classify",
    "read_scores",
    "retrieve",
    "scores_digest",
    "write_scores",
]
