"""How a model is asked: probes turn a scorer and counterfactual sets into numbers per image."""

from fairgate.probes.answers import (
    METRIC_VERSION,
    Contest,
    ProbeScores,
    Rows,
    read_scores,
    read_set_ids,
    scores_digest,
    write_scores,
)
from fairgate.probes.association import associate
from fairgate.probes.classification import classify
from fairgate.probes.contract import Choice, DatasetFacts, Probe, RankingQuery, dataset_has
from fairgate.probes.registry import PROBES, register, value_name
from fairgate.probes.retrieval import retrieve
from fairgate.probes.settings import Name, Part, Prose, Text, with_article
from fairgate.probes.temperature import Entropies, Matched, match_entropies, mean_entropies

__all__ = [
    "METRIC_VERSION",
    "PROBES",
    "Choice",
    "Contest",
    "DatasetFacts",
    "Entropies",
    "Matched",
    "Name",
    "Part",
    "Probe",
    "ProbeScores",
    "Prose",
    "RankingQuery",
    "Rows",
    "Text",
    "associate",
    "classify",
    "dataset_has",
    "match_entropies",
    "mean_entropies",
    "read_scores",
    "read_set_ids",
    "register",
    "retrieve",
    "scores_digest",
    "value_name",
    "with_article",
    "write_scores",
]
