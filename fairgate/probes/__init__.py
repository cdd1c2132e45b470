"""Probes: how a model is queried, and the numbers per image that result."""

from fairgate.probes.answer_matcher import ABSTAINED, UNREADABLE, AnswerMatcher
from fairgate.probes.answers import (
    LISTED_AGAIN,
    METRIC_VERSION,
    Contest,
    ProbeScores,
    Rows,
    further_numbers,
    read_scores,
    read_set_ids,
    scores_digest,
    write_scores,
)
from fairgate.probes.classification import classify
from fairgate.probes.contract import (
    Choice,
    DatasetFacts,
    OpenInstrument,
    Probe,
    RankingQuery,
    dataset_has,
    register,
)
from fairgate.probes.generation import PICTURE, REFUSAL, REPEAT, SHOWN, GenerationProbe
from fairgate.probes.registry import PROBES, value_name
from fairgate.probes.settings import Name, Prose, SuiteSection, Text, checked_template, filled, with_article
from fairgate.probes.taxonomies import TAXONOMIES, WORD_FORMS, Taxonomy, TaxonomyName, WordForm, taxonomy
from fairgate.probes.temperature import Entropies, Matched, match_entropies, mean_entropies
from fairgate.probes.views import RANKS, mean_over_views, require_views, viewed_rows, within

__all__ = [
    "ABSTAINED",
    "LISTED_AGAIN",
    "METRIC_VERSION",
    "PICTURE",
    "PROBES",
    "RANKS",
    "REFUSAL",
    "REPEAT",
    "SHOWN",
    "TAXONOMIES",
    "UNREADABLE",
    "WORD_FORMS",
    "AnswerMatcher",
    "Choice",
    "Contest",
    "DatasetFacts",
    "Entropies",
    "GenerationProbe",
    "Matched",
    "Name",
    "OpenInstrument",
    "Probe",
    "ProbeScores",
    "Prose",
    "RankingQuery",
    "Rows",
    "SuiteSection",
    "Taxonomy",
    "TaxonomyName",
    "Text",
    "WordForm",
    "checked_template",
    "classify",
    "dataset_has",
    "filled",
    "further_numbers",
    "match_entropies",
    "mean_entropies",
    "mean_over_views",
    "read_scores",
    "read_set_ids",
    "register",
    "require_views",
    "scores_digest",
    "taxonomy",
    "value_name",
    "viewed_rows",
    "with_article",
    "within",
    "write_scores",
]
