"""Probes by kind. Each registers itself when it is imported; installed packages add theirs."""

from __future__ import annotations

from fairgate.probes.contract import REGISTERED

PROBES = REGISTERED.with_modules(
    {
        "zero_shot_classification": "fairgate.probes.classification",
        "retrieval": "fairgate.probes.ranking",
        "association": "fairgate.probes.ranking",
        "caption_retrieval": "fairgate.probes.ranking",
        "pair_association": "fairgate.probes.ranking",
        "image_editing": "fairgate.probes.image_editing",
        "detection": "fairgate.probes.detection",
        "prediction": "fairgate.probes.prediction",
        "question": "fairgate.probes.question",
        "generation": "fairgate.probes.generation",
        "number": "fairgate.probes.prediction",
    }
)


def value_name(digest_kind: str) -> str:
    """What the number of an image is, of a probe that a record calls by this kind: `P(true)`, `cosine`, or `value`."""
    known = (probe.value_names for probe in PROBES.values())
    return next((names[digest_kind] for names in known if digest_kind in names), "value")
