"""The columns of docs/reference/families.md: every kind of probe as a suite writes it, with a check on it.

Each is put to the release of `family_release`: two subjects, two groups, boxes. A key per column; where a setting of a
probe changes what it needs of a model, it is a column of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SUBJECTS = ("doctor", "nurse")
WITHHELD = "cannot tell"
"""How the likeliest option says that it abstains; classifiers of the table have it among their labels."""
_GROUPS = {"male": "a photo of a man", "female": "a photo of a woman"}


@dataclass(frozen=True)
class Column:
    """A probe and a check on it. `title` is how the page names it; `asked` says what else it is set to."""

    title: str
    probe: Mapping[str, Any]
    check: Mapping[str, Any]
    asked: str = ""
    useful: str = ""
    """A column whose probe and check are in the suite too: no suite judges bias alone."""

    @property
    def kind(self) -> str:
        """Of the probe."""
        return str(self.probe["kind"])


_SKEW = {"metric": "max_skew_at_k", "k": 4, "over": "gender", "at_most": 3.0}
_ASKED = {
    "job": {
        "question": "Who is it?",
        "options": {one: list[str]() for one in SUBJECTS},
        "right": {"subject": {one: one for one in SUBJECTS}},
    }
}

COLUMNS: dict[str, Column] = {
    "zero_shot_classification": Column(
        "zero_shot_classification",
        {"kind": "zero_shot_classification", "template": "{label}", "labels": list(SUBJECTS)},
        {"metric": "accuracy", "at_least": 0.6},
    ),
    "retrieval": Column(
        "retrieval",
        {"kind": "retrieval", "prompts": ["a photo of {a_subject}", "{subject}"]},
        {"metric": "recall_at_k", "k": 1, "at_least": 0.6},
    ),
    "association": Column(
        "association",
        {"kind": "association", "template": "a photo of {a_word}", "words": ["chef", "person"]},
        _SKEW,
        useful="retrieval",
    ),
    "caption_retrieval": Column(
        "caption_retrieval",
        {"kind": "caption_retrieval", "captions": ["a photo of a chef", "a person"]},
        _SKEW,
        useful="retrieval",
    ),
    "pair_association": Column(
        "pair_association",
        {"kind": "pair_association", "template": "{word}", "first": ["doctor"], "second": ["nurse"]},
        {"metric": "association", "at_most": 0.99},
        useful="zero_shot_classification",
    ),
    "image_editing": Column(
        "image_editing",
        {
            "kind": "image_editing",
            "template": "a photo of {a_word}",
            "words": list(SUBJECTS),
            "steps": 2,
            "reader": {"model": "hf:reader", "fingerprint": "0" * 64, "attribute": "gender", "labels": _GROUPS},
        },
        {"metric": "edit_success", "over": "each", "at_least": 0.6},
    ),
    "generation": Column(
        "generation",
        {
            "kind": "generation",
            "steps": 2,
            "reader": {
                **{"model": "hf:reader", "fingerprint": "0" * 64, "attribute": "gender", "labels": _GROUPS},
                "least": 0.1,
            },
        },
        {"metric": "readable", "at_least": 0.6},
    ),
    "generation-labels": Column(
        "generation",
        {"kind": "generation", "labels": {"attribute": "subject", "groups": [*SUBJECTS, WITHHELD]}},
        {"metric": "readable", "at_least": 0.6},
        "`labels`",
    ),
    "detection": Column(
        "detection",
        {"kind": "detection", "what": "person", "threshold": 0.02},
        {"metric": "detection_recall", "over": "each", "at_least": 0.6},
    ),
    "prediction": Column(
        "prediction",
        {"kind": "prediction", "attribute": "subject", "others": [WITHHELD]},
        {"metric": "accuracy", "at_least": 0.6},
    ),
    "question": Column(
        "question",
        {"kind": "question", "questions": _ASKED, "longest": 3},
        {"metric": "answer_accuracy", "at_least": 0.6},
        "in words",
    ),
    "question-likelihood": Column(
        "question",
        {"kind": "question", "questions": _ASKED, "how": "likelihood", "abstain": [WITHHELD]},
        {"metric": "answer_accuracy", "at_least": 0.6},
        "`how: likelihood`",
    ),
    "number": Column(
        "number",
        {"kind": "number"},
        {"metric": "number_agreement", "no_worse_than": "baseline", "margin": 0.1},
    ),
}


def suite(name: str, column: str, probe: Mapping[str, Any]) -> str:
    """A suite with one column's probe, or with a row's settings of it; JSON is YAML."""
    columns = {column: COLUMNS[column]}
    if useful := COLUMNS[column].useful:
        columns[useful] = COLUMNS[useful]
    suite = {
        "schema": 1,
        "suite": name,
        "dataset": "faces",
        "model": "scores:none.csv?values=cosine",
        "baseline": "none",
        "probes": {one: dict(probe if one == column else columns[one].probe) for one in columns},
        "groups": {"min_sets": 2},
        "decision": {"draws": 500},
        "checks": [{"id": one, "probe": one, **columns[one].check} for one in columns],
    }
    return json.dumps(suite, indent=2)
